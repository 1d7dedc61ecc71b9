//! A queue that has one entry nearly always: that one lies where the queue does, and memory is asked for only while there are more.

use std::collections::VecDeque;

/// The queue. Idle sessions have an empty one, in as many bytes as its entry and a pointer.
#[derive(Clone, Debug)]
pub(crate) struct Few<T> {
    first: Option<T>,
    /// Those behind it; never empty.
    #[expect(
        clippy::box_collection,
        reason = "a pointer is a quarter of an empty queue, and sessions are millions"
    )]
    rest: Option<Box<VecDeque<T>>>,
}

impl<T> Default for Few<T> {
    fn default() -> Few<T> {
        Few { first: None, rest: None }
    }
}

impl<T> Few<T> {
    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.as_ref().map_or(0, |rest| rest.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn push_back(&mut self, entry: T) {
        match &self.first {
            None => self.first = Some(entry),
            Some(_) => self.rest.get_or_insert_default().push_back(entry),
        }
    }

    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let next = self.rest.as_mut().and_then(|rest| rest.pop_front());
        self.settle();
        std::mem::replace(&mut self.first, next)
    }

    pub(crate) fn pop_back(&mut self) -> Option<T> {
        let last = self.rest.as_mut().and_then(|rest| rest.pop_back());
        self.settle();
        last.or_else(|| self.first.take())
    }

    /// Gives back the memory of those behind the first where there are none.
    fn settle(&mut self) {
        self.rest.take_if(|rest| rest.is_empty());
    }

    pub(crate) fn front(&self) -> Option<&T> {
        self.first.as_ref()
    }

    pub(crate) fn front_mut(&mut self) -> Option<&mut T> {
        self.first.as_mut()
    }

    pub(crate) fn back_mut(&mut self) -> Option<&mut T> {
        match &mut self.rest {
            Some(rest) => rest.back_mut(),
            None => self.first.as_mut(),
        }
    }

    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        match place.checked_sub(1) {
            None => self.first.as_ref(),
            Some(place) => self.rest.as_ref()?.get(place),
        }
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.first.iter().chain(self.rest.iter().flat_map(|rest| rest.iter()))
    }

    pub(crate) fn clear(&mut self) {
        *self = Few::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// It is a queue, and has memory of its own only while there are several entries.
        #[test]
        fn it_agrees_with_a_queue(steps in prop::collection::vec((0..6_u8, any::<u16>()), 0..200)) {
            let (mut few, mut model) = (Few::default(), VecDeque::new());
            for (action, entry) in steps {
                match action {
                    0..=2 => {
                        few.push_back(entry);
                        model.push_back(entry);
                    }
                    3 => prop_assert_eq!(few.pop_front(), model.pop_front()),
                    4 => prop_assert_eq!(few.pop_back(), model.pop_back()),
                    _ => prop_assert_eq!(few.back_mut(), model.back_mut()),
                }
                prop_assert_eq!((few.len(), few.is_empty()), (model.len(), model.is_empty()));
                prop_assert_eq!(few.front(), model.front());
                prop_assert_eq!(few.front_mut(), model.front_mut());
                prop_assert!(few.iter().eq(&model) && few.iter().rev().eq(model.iter().rev()));
                prop_assert!((0..=model.len()).all(|place| few.get(place) == model.get(place)));
                prop_assert_eq!(few.rest.is_some(), model.len() > 1);
            }
            few.clear();
            prop_assert!(few.is_empty() && few.rest.is_none());
        }
    }
}
