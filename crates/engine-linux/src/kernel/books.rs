//! Books of intervals from the metering program's counts: they are read from its maps now and then, and nothing is done for
//! a frame.

use wirebeat_meter::interval::{LISTED, MeterBooks, Metered};
use wirebeat_meter::series::Books;

use super::KernelReceiver;

impl Metered for KernelReceiver {
    fn books(&self) -> MeterBooks {
        let mut books = MeterBooks::default();
        let (by_headers, unprobed) = self.other_rows();
        let probed = self.rows().map(|(id, row)| (row < LISTED, id, row));
        let by_headers = by_headers.enumerate();
        let by_headers = by_headers.map(|(place, (id, row))| (place < LISTED, id, row));
        for (listed, id, row) in probed.chain(by_headers) {
            match listed {
                true => drop(books.flows.insert(id, self.books_of(row, true))),
                false => books.others.join(self.books_of(row, false)),
            }
        }
        books.unprobed = self.books_of(unprobed, true);
        books
    }

    fn bound_lost(&self, books: &mut MeterBooks) {
        let mut others = 0_i64;
        for (id, row) in self.rows() {
            let missing = i64::try_from(self.missing_of(row)).unwrap_or(i64::MAX);
            match books.flows.get_mut(&id) {
                Some(flow) => flow.lost = flow.lost.min(missing),
                None if row < LISTED => {}
                None => others = others.saturating_add(missing),
            }
        }
        books.others.lost = books.others.lost.min(others);
    }
}
