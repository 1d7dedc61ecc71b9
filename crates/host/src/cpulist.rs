//! Sets of CPUs as the kernel writes them: "0-3,8".

use std::fmt;

use serde::{Serialize, Serializer};

/// No machine has more CPUs than this (`NR_CPUS` of the largest kernel configuration).
const CPUS_MAX: u32 = 8192;

/// Numbers of CPUs, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList(Vec<u32>);

impl CpuList {
    /// Reads the kernel's list format (Documentation/admin-guide/cputopology.rst); an empty text is
    /// an empty list.
    pub fn parse(text: &str) -> Option<Self> {
        let mut cpus = Vec::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last >= CPUS_MAX {
                return None;
            }
            cpus.extend(first..=last);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Some(CpuList(cpus))
    }

    /// The numbers, ascending.
    pub fn cpus(&self) -> &[u32] {
        &self.0
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|a, b| a + 1 == *b).filter_map(|run| match run {
            [] => None,
            [only] => Some(only.to_string()),
            [first, .., last] => Some(format!("{first}-{last}")),
        });
        f.write_str(&runs.collect::<Vec<_>>().join(","))
    }
}

/// As the kernel writes it.
impl Serialize for CpuList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_read_and_print_as_the_kernel_writes_them() {
        for text in ["", "0", "0-1", "0-3,8,10-11", "8191"] {
            assert_eq!(CpuList::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(CpuList::parse("2,0-1,1\n").unwrap().to_string(), "0-2");
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["a", "1-", "-1", "3-1", "0-4294967295", "0-8192", "1;2"] {
            assert_eq!(CpuList::parse(text), None, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: proptest::test_runner::RngSeed::Fixed(7),
            failure_persistence: None,
            ..Default::default()
        })]
        #[test]
        fn any_set_survives_the_way_through_text(mut cpus in proptest::collection::vec(0..CPUS_MAX, 0..40)) {
            let text = cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            cpus.sort_unstable();
            cpus.dedup();
            let list = CpuList::parse(&text).unwrap();
            prop_assert_eq!(list.cpus(), &cpus[..]);
            prop_assert_eq!(CpuList::parse(&list.to_string()).unwrap(), list);
        }
    }
}
