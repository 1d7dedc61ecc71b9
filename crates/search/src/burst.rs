//! Back-to-back frames (RFC 2544 §26.4, RFC 9004): the longest burst at the highest rate of which nothing is lost.

/// A search for the longest burst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BurstSearch {
    /// Frames of the longest burst that is tried: two seconds of them, by RFC 9004.
    pub longest: u64,
    /// How close the bounds come, in frames; at least 1.
    pub resolution: u64,
}

/// What the bursts of a search come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bursts {
    /// The longest of which nothing was lost, below all of which something was; 0 where there is none.
    pub whole: u64,
    /// The shortest of which something was lost.
    pub cut: Option<u64>,
}

impl Bursts {
    /// Of bursts: frames, and how many of them were lost.
    pub fn of(bursts: &[(u64, u64)]) -> Bursts {
        let cut = bursts.iter().filter(|(_, lost)| *lost > 0).map(|(frames, _)| *frames).min();
        let below = |frames: &u64| cut.is_none_or(|cut| *frames < cut);
        let whole = bursts.iter().filter(|(_, lost)| *lost == 0).map(|(frames, _)| *frames);
        Bursts { whole: whole.filter(below).max().unwrap_or(0), cut }
    }
}

impl BurstSearch {
    /// The next burst, in frames; `None` where the search is over.
    pub fn next(&self, bursts: &[(u64, u64)]) -> Option<u64> {
        let Bursts { whole, cut } = Bursts::of(bursts);
        let Some(cut) = cut else {
            return (whole < self.longest).then_some(self.longest.max(1));
        };
        let resolution = self.resolution.max(1);
        if cut - whole <= resolution {
            return None;
        }
        // of a burst of which part was lost, the queue held less than the rest
        let held = bursts
            .iter()
            .filter(|(frames, _)| *frames == cut)
            .map(|(frames, lost)| frames.saturating_sub(*lost))
            .max();
        let guess = held.filter(|held| bursts.len() == 1 && *held > whole && *held < cut);
        Some(guess.unwrap_or(whole + (cut - whole) / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_burst_is_found_to_the_frame() {
        let search = BurstSearch { longest: 1_000_000, resolution: 1 };
        for held in [0, 1, 2, 777, 65_536, 999_999, 1_000_000, 2_000_000] {
            let mut bursts: Vec<(u64, u64)> = Vec::new();
            while let Some(frames) = search.next(&bursts) {
                assert!(bursts.len() < 60, "{held}: {bursts:?}");
                // while it comes in, a device sends some of it on
                let lost = frames.saturating_sub(held).saturating_mul(9) / 10;
                let lost = if frames > held { lost.max(1) } else { 0 };
                bursts.push((frames, lost));
            }
            assert_eq!(Bursts::of(&bursts).whole, held.min(search.longest), "{bursts:?}");
        }
    }
}
