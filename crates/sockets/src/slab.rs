//! Sockets by their numbers, with a free list.
//!
//! A number that became free is given out again only after [`Slab::settle`], once a turn: what programs have asked for in the
//! meantime, and events of the same batch, still name the connection that ended.

/// A table whose places have numbers.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Option<T>>,
    /// Numbers to give out.
    free: Vec<u32>,
    /// Numbers that became free since the last turn began.
    resting: Vec<u32>,
    used: usize,
}

impl<T> Slab<T> {
    pub fn new() -> Self {
        Slab { places: Vec::new(), free: Vec::new(), resting: Vec::new(), used: 0 }
    }

    pub fn len(&self) -> usize {
        self.used
    }

    /// The number that [`Slab::insert`] will give out next.
    pub fn next(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.places.len() as u32)
    }

    /// Puts a value at the number that [`Slab::next`] said.
    pub fn insert(&mut self, value: T) -> u32 {
        self.used += 1;
        match self.free.pop() {
            Some(number) => {
                if let Some(place) = self.places.get_mut(number as usize) {
                    *place = Some(value);
                }
                number
            }
            None => {
                self.places.push(Some(value));
                self.places.len() as u32 - 1
            }
        }
    }

    pub fn get(&self, number: u32) -> Option<&T> {
        self.places.get(number as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.places.get_mut(number as usize)?.as_mut()
    }

    pub fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.places.get_mut(number as usize)?.take()?;
        self.used -= 1;
        self.resting.push(number);
        Some(value)
    }

    /// From now on the numbers that became free are given out again.
    pub fn settle(&mut self) {
        self.free.append(&mut self.resting);
    }

    /// All values.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_rests_before_it_is_given_out_again() {
        let mut slab = Slab::new();
        assert_eq!((slab.next(), slab.insert('a'), slab.insert('b')), (0, 0, 1));
        assert_eq!(slab.remove(0), Some('a'));
        assert_eq!(slab.remove(0), None);
        assert_eq!((slab.next(), slab.insert('c'), slab.len()), (2, 2, 2));
        slab.settle();
        assert_eq!((slab.next(), slab.insert('d'), slab.next()), (0, 0, 3));
        assert_eq!(slab.get_mut(0), Some(&mut 'd'));
        assert_eq!(slab.get_mut(7), None);
        assert_eq!(slab.iter().collect::<String>(), "dbc");
    }
}
