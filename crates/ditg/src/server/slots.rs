//! Places for things that come and go: a place is a number that stays the same as long as the thing is there.

/// Places.
#[derive(Debug)]
pub(super) struct Slots<T> {
    places: Vec<Option<T>>,
    limit: usize,
    taken: usize,
}

impl<T> Slots<T> {
    /// With so many places at most.
    pub fn new(limit: usize) -> Slots<T> {
        Slots { places: Vec::new(), limit, taken: 0 }
    }

    /// How many are taken.
    pub fn len(&self) -> usize {
        self.taken
    }

    pub fn is_full(&self) -> bool {
        self.taken >= self.limit
    }

    /// The place that the next one gets; `None` where all are taken.
    pub fn next_place(&self) -> Option<usize> {
        if self.is_full() {
            return None;
        }
        let free = self.places.iter().position(Option::is_none);
        Some(free.unwrap_or(self.places.len()))
    }

    /// Puts it into a place that [`Slots::next_place`] named.
    pub fn put(&mut self, place: usize, thing: T) {
        if place >= self.places.len() {
            self.places.resize_with(place + 1, || None);
        }
        if let Some(slot) = self.places.get_mut(place) {
            self.taken += usize::from(slot.is_none());
            *slot = Some(thing);
        }
    }

    pub fn get(&self, place: usize) -> Option<&T> {
        self.places.get(place)?.as_ref()
    }

    pub fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        self.places.get_mut(place)?.as_mut()
    }

    pub fn remove(&mut self, place: usize) -> Option<T> {
        let thing = self.places.get_mut(place)?.take();
        self.taken -= usize::from(thing.is_some());
        thing
    }

    /// All with their places.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        (0..).zip(&self.places).filter_map(|(place, thing)| Some((place, thing.as_ref()?)))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut T)> {
        (0..).zip(&mut self.places).filter_map(|(place, thing)| Some((place, thing.as_mut()?)))
    }
}
