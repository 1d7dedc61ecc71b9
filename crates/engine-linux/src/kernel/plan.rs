//! How a receiver's kernel memory is laid out: for how many flows there is room, how many sequence numbers each window
//! tells apart, how many flows and lanes have histograms of their own. Pure.
//!
//! What is exact is small and there for every flow: counters and moments by lane. Windows come next, and what
//! remains is for larger windows and for histograms, for the flows that need them first.

use wirebeat_meter::meter::Flows;

use super::abi::{Detail, Flow, RxLane, WINDOW_GROWTH, WINDOW_WORDS, WINDOW_WORDS_MIN};

/// Kernel memory that a receiver takes if that is enough for windows of full size.
pub const MEMORY_USUAL: usize = 256 << 20;
/// Kernel memory that the measurements of one receiver may take.
pub const MEMORY_MAX: usize = 1 << 30;

/// One of so many parts of what is left for histograms is for windows that grow.
const SPARE_PART: usize = 8;

/// Numbers of flows that probes have room for; a word says where each is.
const PLACES: usize = 65_536 * 8;

/// What an entry of the table of headers takes: key, value, and what the kernel keeps with them.
const HEADERS_EACH: usize = 128;

/// Flows without probes that are known by their headers, and how many headers these are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recognised {
    pub(crate) flows: usize,
    pub(crate) headers: usize,
}

/// The layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Flows with probes that there is room for.
    pub(crate) flows: u32,
    /// These, datagrams without a probe, and flows that are known by their headers, in this order.
    pub(crate) rows: u32,
    /// Words of the window of each flow …
    pub(crate) words: u32,
    /// … and of the first few.
    pub(crate) first_words: u32,
    pub(crate) first: u32,
    /// Words for windows that grow, behind those of all flows.
    pub(crate) spare: u32,
    /// Sets of histograms, with those that are shared: one for each lane.
    pub(crate) details: u32,
    /// Bytes of all of it.
    pub(crate) memory: usize,
}

/// The number of bytes that would be needed at the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMuch(pub(crate) usize);

impl Plan {
    /// For `flows` on `lanes`, with `bins` linear bins for each set of histograms.
    pub(crate) fn new(
        flows: &Flows,
        recognised: Recognised,
        lanes: usize,
        bins: usize,
    ) -> Result<Plan, TooMuch> {
        let lanes = lanes.max(1);
        let each = lanes * size_of::<RxLane>() + size_of::<Flow>();
        let least_window = WINDOW_WORDS_MIN * 8;
        let detail = size_of::<Detail>() + if bins > 0 { (bins + 1) * 8 } else { 0 };
        // what is shared on each lane, and the same for one flow
        let least_details = 2 * lanes * detail;
        let (count, known) = match flows {
            Flows::Any(most) => {
                let room = (MEMORY_USUAL / 2).saturating_sub(PLACES) / (each + least_window);
                (usize::from(*most).min(room.max(1)), false)
            }
            Flows::Expected(flows) => (flows.len(), true),
        };
        let others = recognised.flows + 1;
        let fixed = PLACES + (count + others) * each + recognised.headers * HEADERS_EACH;
        let least = fixed + count * least_window + least_details;
        if least > MEMORY_MAX {
            return Err(TooMuch(least));
        }
        let (words, first) = if known {
            // as large as all of them can be, within three quarters of what is left
            let room = (MEMORY_MAX - fixed - least_details) / 4 * 3;
            let fits = |words: &usize| count * words * 8 <= room;
            let sizes = std::iter::successors(Some(WINDOW_WORDS), |words| Some(words / 2));
            let mut sizes = sizes.take_while(|words| *words > WINDOW_WORDS_MIN);
            (sizes.find(fits).unwrap_or(WINDOW_WORDS_MIN), 0)
        } else {
            // full ones for those who come first
            let room = MEMORY_USUAL.saturating_sub(fixed + count * least_window) / 4;
            let first = room / (WINDOW_WORDS * 8);
            if first < count { (WINDOW_WORDS_MIN, first) } else { (WINDOW_WORDS, 0) }
        };
        let windows = first * WINDOW_WORDS * 8 + (count - first) * words * 8;
        let used = fixed + windows;
        let bound = MEMORY_USUAL.max(used + MEMORY_USUAL / 4).max(used + least_details);
        let room = bound.min(MEMORY_MAX.max(used + least_details)) - used;
        let grown = words * 8 * WINDOW_GROWTH;
        let spare = (room - least_details) / SPARE_PART;
        let spare =
            spare.min(MEMORY_USUAL / SPARE_PART).min(windows * WINDOW_GROWTH) / grown * grown;
        let room = room - spare;
        let details = (room / detail).clamp(2 * lanes, (count + others + 1) * lanes);
        Ok(Plan {
            flows: count as u32,
            rows: (count + others) as u32,
            words: words as u32,
            first_words: WINDOW_WORDS as u32,
            first: first as u32,
            spare: (spare / 8) as u32,
            details: details as u32,
            memory: used + spare + details * detail,
        })
    }

    /// Whether every row has histograms of its own on every lane.
    pub(crate) fn has_details_for_all(&self, lanes: usize) -> bool {
        self.details as usize >= (self.rows as usize + 1) * lanes
    }

    /// Whether frames are counted by lane besides: adding up very many flows takes long.
    pub(crate) fn counts_by_lane(&self) -> bool {
        const FEW: u32 = 64;
        self.rows > FEW + 1
    }

    /// The window of flow `index`: its first word, and how many there are.
    pub(crate) fn window(&self, index: u32) -> (u32, u32) {
        match index.checked_sub(self.first) {
            None => (index * self.first_words, self.first_words),
            Some(index) => (self.first * self.first_words + index * self.words, self.words),
        }
    }

    /// Words of all windows.
    pub(crate) fn all_words(&self) -> u32 {
        self.window(self.flows).0
    }
}

#[cfg(test)]
mod tests {
    use wirebeat_meter::flow::Expectation;

    use super::*;

    fn expected(count: usize) -> Flows {
        Flows::Expected((0..count).map(|id| (id as u16, Expectation::default())).collect())
    }

    #[test]
    fn ten_thousand_flows_take_256_mib_and_sixty_thousand_less_than_1_gib() {
        let plan = Plan::new(&expected(10_000), Recognised::default(), 2, 0).unwrap();
        assert!(plan.memory <= 256 << 20, "{plan:?}");
        assert_eq!(plan.words as usize, WINDOW_WORDS);
        assert!(plan.details > 450, "{plan:?}");
        let plan = Plan::new(&expected(60_000), Recognised::default(), 2, 0).unwrap();
        assert!(plan.memory <= 1 << 30, "{plan:?}");
        assert!(plan.words >= 1024 && plan.details > 320, "{plan:?}");
        // and on many CPUs
        let plan = Plan::new(&expected(10_000), Recognised::default(), 64, 0).unwrap();
        assert!(plan.memory <= 1 << 30, "{plan:?}");
        assert!(
            matches!(Plan::new(&expected(60_000), Recognised::default(), 64, 0), Err(TooMuch(least)) if least > 1 << 30)
        );
    }

    #[test]
    fn few_flows_have_everything_of_their_own() {
        for (count, lanes) in [(1, 1), (1, 2), (16, 4), (300, 2)] {
            let plan = Plan::new(&expected(count), Recognised::default(), lanes, 0).unwrap();
            // each on each lane, frames without a probe, and what is shared
            assert_eq!(plan.details as usize, (count + 2) * lanes);
            assert_eq!(plan.window(count as u32 - 1).1 as usize, WINDOW_WORDS);
        }
    }

    #[test]
    fn windows_have_room_to_grow() {
        let spare = |count| {
            let plan = Plan::new(&expected(count), Recognised::default(), 2, 0).unwrap();
            (plan.spare as usize / (plan.words as usize * WINDOW_GROWTH), plan.memory)
        };
        // all of few flows, and some of many
        assert_eq!([1, 16, 100].map(|count| spare(count).0), [1, 16, 100]);
        assert!(spare(300).0 >= 120 && spare(10_000).0 >= 40 && spare(60_000).0 >= 60);
        assert!(spare(1).1 < 2 << 20, "{} bytes for one flow", spare(1).1);
        let plan = Plan::new(&Flows::Any(u16::MAX), Recognised::default(), 2, 0).unwrap();
        assert!(plan.spare as usize >= 32 * WINDOW_WORDS * WINDOW_GROWTH, "{plan:?}");
    }

    #[test]
    fn a_receiver_of_any_flow_has_room_for_all_numbers_on_two_lanes() {
        let plan = Plan::new(&Flows::Any(u16::MAX), Recognised::default(), 2, 0).unwrap();
        assert_eq!(plan.flows, 65_535);
        assert!(plan.memory <= MEMORY_USUAL, "{plan:?}");
        assert!(plan.first > 1000 && plan.details > 500, "{plan:?}");
        let plan = Plan::new(&Flows::Any(u16::MAX), Recognised::default(), 128, 0).unwrap();
        assert!(plan.flows > 1000 && plan.memory <= MEMORY_USUAL, "{plan:?}");
    }

    #[test]
    fn windows_lie_one_after_the_other() {
        let plan = Plan::new(&Flows::Any(u16::MAX), Recognised::default(), 2, 0).unwrap();
        let mut next = 0;
        for index in 0..plan.flows {
            let (at, words) = plan.window(index);
            assert_eq!(at, next);
            assert!(words.is_power_of_two());
            next += words;
        }
        assert_eq!(next, plan.all_words());
    }

    #[test]
    fn flows_that_are_known_by_their_headers_have_rows_behind_all_others() {
        let recognised = Recognised { flows: 3, headers: 1000 };
        let plan = Plan::new(&expected(2), recognised, 2, 0).unwrap();
        assert_eq!((plan.flows, plan.rows), (2, 6));
        assert!(plan.has_details_for_all(2), "{plan:?}");
        let without = Plan::new(&expected(2), Recognised::default(), 2, 0).unwrap();
        assert!(plan.memory >= without.memory + 1000 * HEADERS_EACH, "{plan:?}");
    }

    #[test]
    fn linear_bins_count_as_memory() {
        let with = Plan::new(&expected(100), Recognised::default(), 2, 65_536).unwrap();
        assert!(with.memory <= MEMORY_USUAL && with.details < 400, "{with:?}");
    }
}
