//! Which recordings of a port read into memory that it shares. Where there is none, they read into their own: that is
//! slower, and the mode of the port says which it is.

use std::sync::Arc;

use wirebeat_engine_linux::kernel::{SHARED_MAX, Shared};

use super::Opened;

/// Makes memory for recordings, those of one port, and gives it to them: as many of them as there is room for.
pub(crate) fn among<'a>(recordings: impl Iterator<Item = &'a mut Opened>) -> Option<Arc<Shared>> {
    let (mut chosen, mut lengths, mut left) = (Vec::new(), Vec::new(), SHARED_MAX);
    for one in recordings {
        let mine = one.shared();
        let all = mine.iter().map(|&len| Shared::room(len)).sum();
        if let Some(rest) = left.checked_sub(all).filter(|_| !mine.is_empty()) {
            left = rest;
            chosen.push((one, mine.len()));
            lengths.extend(mine);
        }
    }
    if chosen.is_empty() {
        return None;
    }
    let (shared, pieces) = Shared::new(&lengths).ok()?;
    let mut pieces = pieces.into_iter();
    for (one, count) in chosen {
        one.share(pieces.by_ref().take(count).collect());
    }
    Some(Arc::new(shared))
}
