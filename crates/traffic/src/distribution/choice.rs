//! Weighted choice in constant time, however many entries there are.
//!
//! The alias method (Walker 1977) with tables built in whole numbers (Vose 1991): every entry has one
//! cell, and a cell holds at most two entries. Nothing is rounded but the border within a cell, to 2^-64.

use wirebeat_units::{Fault, fault, into_fault};

use super::draw::Draw;

/// The most entries of a choice.
pub const MAX_ENTRIES: usize = 65_536;

/// A choice between entries, each as likely as its weight says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    cells: Box<[Cell]>,
}

/// One of the equally likely cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    /// Which share of the cell belongs to the entry of its own number, in 2^-64.
    own: u64,
    /// Whose the rest is.
    other: u32,
}

/// Why there is nothing to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub enum ChoiceError {
    /// There is no entry.
    Empty,
    /// All weights are 0.
    NoWeight,
    /// There are more entries than [`MAX_ENTRIES`].
    TooMany(usize),
}

impl ChoiceError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            ChoiceError::Empty => {
                fault!("there is nothing to choose from"; "give at least one entry")
            }
            ChoiceError::NoWeight => {
                fault!(
                    "all weights are 0, so nothing is ever chosen";
                    "give one a weight from 1 on"
                )
            }
            ChoiceError::TooMany(it) => fault!(
                "there are {it} entries to choose from, and at most {MAX_ENTRIES} are allowed"
            ),
        }
    }
}

into_fault!(ChoiceError);

impl Choice {
    /// Between `weights.len()` entries. An entry of weight 0 is never chosen.
    pub fn new(weights: &[u32]) -> Result<Choice, ChoiceError> {
        let count = weights.len() as u64;
        match weights.len() {
            0 => return Err(ChoiceError::Empty),
            many if many > MAX_ENTRIES => return Err(ChoiceError::TooMany(many)),
            _ => {}
        }
        // Below 2^48 both, and in this measure a full cell holds exactly `total`.
        let total: u64 = weights.iter().copied().map(u64::from).sum();
        let mut left: Vec<u64> = weights.iter().map(|weight| u64::from(*weight) * count).collect();
        if total == 0 {
            return Err(ChoiceError::NoWeight);
        }
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..count as u32).partition(|entry| left[*entry as usize] < total);
        let full = |entry| Cell { own: u64::MAX, other: entry };
        let mut cells: Vec<Cell> = (0..count as u32).map(full).collect();
        while let (Some(entry), Some(other)) = (small.pop(), large.pop()) {
            let own = left[entry as usize];
            // Below 2^64, since `own` is below `total`.
            let border = ((u128::from(own) << 64) / u128::from(total)) as u64;
            cells[entry as usize] = Cell { own: border, other };
            left[other as usize] -= total - own;
            let rest = if left[other as usize] < total { &mut small } else { &mut large };
            rest.push(other);
        }
        Ok(Choice { cells: cells.into() })
    }

    /// The number of an entry, from 0. Takes one random number.
    #[inline]
    pub fn pick(&self, draw: &mut Draw) -> usize {
        // The whole part of a number between 0 and the count of cells is the cell, and its fraction is
        // the place in the cell.
        let place = u128::from(draw.bits()) * self.cells.len() as u128;
        let number = (place >> 64) as usize;
        match self.cells.get(number) {
            Some(cell) if (place as u64) >= cell.own => cell.other as usize,
            _ => number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::draw::{Key, Purpose};
    use crate::distribution::fit::chi_square;

    /// How often each entry is chosen in a million draws.
    fn counts(weights: &[u32]) -> Vec<u64> {
        let choice = Choice::new(weights).unwrap();
        let key = Key::new(11, 0, Purpose::Size);
        let mut counts = vec![0; weights.len()];
        (0..1_000_000).for_each(|index| counts[choice.pick(&mut key.draw(index))] += 1);
        counts
    }

    #[test]
    fn entries_are_chosen_as_often_as_their_weights_say() {
        let many: Vec<u32> = (0..5000).map(|i| i * 7919 % 1000).collect();
        let extreme = [u32::MAX, 1, u32::MAX / 3, 40_000_000];
        for weights in [&[7, 4, 1][..], &[1; 10], &[1, 0, 1, 3, 0, 95], &many, &extreme] {
            let total: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
            let expected: Vec<f64> =
                weights.iter().map(|weight| f64::from(*weight) / total * 1e6).collect();
            let fit = chi_square(&counts(weights), &expected);
            assert!(fit.passes(), "{} entries: {fit:?}", weights.len());
        }
    }

    #[test]
    fn an_entry_without_weight_is_never_chosen() {
        assert_eq!(counts(&[0, 5, 0])[1], 1_000_000);
        assert_eq!(counts(&[3]), [1_000_000]);
    }

    #[test]
    fn the_cells_hold_the_weights_exactly() {
        let weights: Vec<u32> = (0..MAX_ENTRIES as u32).map(|i| i % 1001).collect();
        let choice = Choice::new(&weights).unwrap();
        let total: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
        let mut shares = vec![0.0; weights.len()];
        for (entry, cell) in choice.cells.iter().enumerate() {
            let own = cell.own as f64 / 2f64.powi(64);
            shares[entry] += own;
            shares[cell.other as usize] += 1.0 - own;
        }
        for (share, weight) in shares.iter().zip(&weights) {
            let weight = f64::from(*weight) / total * weights.len() as f64;
            assert!((share - weight).abs() < 1e-9, "{share} {weight}");
        }
    }

    #[test]
    fn nothing_cannot_be_chosen_from() {
        assert_eq!(Choice::new(&[]), Err(ChoiceError::Empty));
        assert_eq!(Choice::new(&[0, 0]), Err(ChoiceError::NoWeight));
        let many = MAX_ENTRIES + 1;
        assert_eq!(Choice::new(&vec![1; many]), Err(ChoiceError::TooMany(many)));
    }
}
