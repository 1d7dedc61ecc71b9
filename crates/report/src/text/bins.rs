//! Bins of one width as a picture: a bounded number of lines, a bar for each.
//!
//! The lines between the first and the last are of one width, so that their bars can be compared, and hold all but a
//! hundredth of the values; what lies before and behind them has a line of its own. JSON has every bin.

use super::style::{Style, width};
use crate::human;
use crate::model::Bins;

/// The most lines between the first and the last.
const LINES: u64 = 16;
/// Columns of the longest bar.
const BAR: usize = 40;
/// Values on either side that may lie outside the lines: one of so many.
const TAIL: u64 = 200;
/// Parts of a column, an eighth each.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A line: which values, how many, and whether its width is that of the others.
struct Line {
    from: String,
    to: String,
    count: u64,
}

/// The picture of `bins`, and a title that says what is in them; nothing where no value is.
pub fn picture(title: &str, bins: &Bins, style: Style) -> String {
    let total = total(bins);
    if total == 0 {
        return String::new();
    }
    let lines = lines(bins, total);
    let most = lines.iter().map(|line| line.count).max().unwrap_or(1).max(1);
    let counts: Vec<String> = lines.iter().map(|line| human::count(line.count)).collect();
    let shares: Vec<String> =
        lines.iter().map(|line| human::percent(line.count as f64 / total as f64)).collect();
    let wide = |texts: &mut dyn Iterator<Item = &String>| texts.map(|text| width(text)).max();
    let from = wide(&mut lines.iter().map(|line| &line.from)).unwrap_or(0);
    let to = wide(&mut lines.iter().map(|line| &line.to)).unwrap_or(0);
    let count = wide(&mut counts.iter()).unwrap_or(0);
    let share = wide(&mut shares.iter()).unwrap_or(0);
    let number = human::counted(bins.counts.len() as u64, "bin");
    let each = human::short_time(bins.width_ns as f64);
    let joined = match range(bins, total).2 {
        1 => String::new(),
        several => format!(", {} to a line", human::count(several as u64)),
    };
    let heading = format!("{title}, {number} of {each}{joined} (all of them in JSON)");
    let mut out = format!("  {}\n", style.strong(&heading));
    let pad = |text: &str, columns: usize| " ".repeat(columns.saturating_sub(width(text)));
    for (line, (number, part)) in lines.iter().zip(counts.iter().zip(&shares)) {
        out += &format!(
            "    {}{} … {}{}  {}{number}  {}{part}  {}",
            pad(&line.from, from),
            line.from,
            line.to,
            pad(&line.to, to),
            pad(number, count),
            pad(part, share),
            bar(line.count, most)
        );
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}

fn total(bins: &Bins) -> u64 {
    bins.counts.iter().fold(bins.overflow, |sum, count| sum.saturating_add(*count))
}

/// What stands on each line.
fn lines(bins: &Bins, total: u64) -> Vec<Line> {
    let (first, last, step) = range(bins, total);
    let sum = |from: usize, to: usize| -> u64 {
        let counts = bins.counts.get(from..to.min(bins.counts.len())).unwrap_or_default();
        counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count))
    };
    let end = (last.saturating_add(1)).min(bins.counts.len());
    let edges: Vec<usize> = (first..end).step_by(step).chain([end]).collect();
    let edge = |bin: usize| (bin as u64).saturating_mul(bins.width_ns);
    let exact = Exact::for_edges(edge(end), (step as u64).saturating_mul(bins.width_ns));
    let show = |bin: usize| exact.show(edge(bin));
    let mut out = Vec::new();
    let before = sum(0, first);
    if before > 0 {
        out.push(Line { from: show(0), to: show(first), count: before });
    }
    for pair in edges.windows(2) {
        let (Some(&from), Some(&to)) = (pair.first(), pair.last()) else { continue };
        out.push(Line { from: show(from), to: show(to), count: sum(from, to) });
    }
    let behind = sum(end, bins.counts.len()).saturating_add(bins.overflow);
    if behind > 0 {
        out.push(Line { from: show(end), to: String::new(), count: behind });
    }
    out
}

/// The first and the last bin that has a line with others, and how many bins a line takes: 1, 2 or 5 times a power of
/// ten. The first is a multiple of that.
fn range(bins: &Bins, total: u64) -> (usize, usize, usize) {
    let tail = total / TAIL;
    let at = |beyond: u64| {
        let mut sum = 0_u64;
        bins.counts.iter().position(|count| {
            sum = sum.saturating_add(*count);
            sum > beyond
        })
    };
    // all may lie beyond the last bin
    let last_bin = bins.counts.len().saturating_sub(1);
    let first = at(tail).unwrap_or(last_bin);
    let last = at(total.saturating_sub(tail).saturating_sub(1)).unwrap_or(last_bin).max(first);
    let mut step = 1_usize;
    for next in [2, 5, 10].iter().cycle().scan(1_usize, |decade, factor| {
        let step = decade.saturating_mul(*factor);
        *decade = if *factor == 10 { step } else { *decade };
        Some(step)
    }) {
        let lines = last / step - first / step + 1;
        if lines as u64 <= LINES {
            break;
        }
        step = next;
    }
    (first / step * step, (last / step * step).saturating_add(step - 1), step)
}

/// Times that are multiples of a step, in one unit and with as many digits as it takes.
struct Exact {
    unit: &'static str,
    size: u64,
    decimals: usize,
}

impl Exact {
    fn for_edges(largest: u64, step: u64) -> Exact {
        const UNITS: [(&str, u64, usize); 4] =
            [("s", 1_000_000_000, 9), ("ms", 1_000_000, 6), ("µs", 1_000, 3), ("ns", 1, 0)];
        let fits = UNITS.into_iter().find(|(_, size, _)| largest >= *size);
        let (unit, size, digits) = fits.unwrap_or(("ns", 1, 0));
        let zeros =
            (0..digits).take_while(|zeros| step.is_multiple_of(10_u64.pow(*zeros as u32 + 1)));
        Exact { unit, size, decimals: digits - zeros.count() }
    }

    fn show(&self, ns: u64) -> String {
        let Exact { unit, size, decimals } = *self;
        if decimals == 0 {
            return format!("{}{unit}", ns / size);
        }
        let digits = size.ilog10() as usize;
        let part = (ns % size) / 10_u64.pow((digits - decimals.min(digits)) as u32);
        format!("{}.{part:0decimals$}{unit}", ns / size)
    }
}

/// A bar of eighths of a column; the least that is not nothing shows.
fn bar(count: u64, most: u64) -> String {
    let eighths = (u128::from(count) * (BAR as u128 * 8)).div_ceil(u128::from(most)) as usize;
    "█".repeat(eighths / 8) + EIGHTHS.get(eighths % 8).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Colour;

    fn drawn(width_ns: u64, length: usize, values: &[(usize, u64)], overflow: u64) -> String {
        let mut counts = vec![0; length];
        values.iter().for_each(|(bin, count)| counts[*bin] += count);
        picture("inter-arrival", &Bins { width_ns, counts, overflow }, Style::new(Colour::Never))
    }

    #[test]
    fn bins_are_drawn_with_bars() {
        let values =
            [(798, 2_000), (799, 21_000), (800, 40_000), (801, 20_500), (803, 500), (0, 3)];
        let expected = "\
\x20 inter-arrival, 1,000 bins of 100ns (all of them in JSON)
     0.0µs … 79.8µs       3  0.0036 %  ▏
    79.8µs … 79.9µs   2,000    2.38 %  ██
    79.9µs … 80.0µs  21,000    25.0 %  █████████████████████
    80.0µs … 80.1µs  40,000    47.6 %  ████████████████████████████████████████
    80.1µs … 80.2µs  20,500    24.4 %  ████████████████████▌
    80.2µs … 80.3µs       0       0 %
    80.3µs … 80.4µs     500   0.595 %  ▌
    80.4µs …             12   0.014 %  ▏
";
        let text = drawn(100, 1000, &values, 12);
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn bins_that_share_a_line_are_told() {
        let values: Vec<_> = (0..20).map(|bin| (bin, 5)).collect();
        let text = drawn(100_000, 20, &values, 0);
        let heading = "inter-arrival, 20 bins of 100µs, 2 to a line (all of them in JSON)";
        assert!(text.trim_start().starts_with(heading), "{text}");
        assert!(text.contains("0.0ms … 0.2ms"), "{text}");
    }

    #[test]
    fn any_bins_take_a_bounded_number_of_lines() {
        for length in [1, 2, 17, 999, 65_536] {
            for width in [1, 50, 333, 1_000_000, u64::MAX] {
                for spread in [1, 2, 3, 7, 40_000] {
                    let values: Vec<_> =
                        (0..length).step_by(spread).map(|bin| (bin, 1 + bin as u64 % 5)).collect();
                    let text = drawn(width, length, &values, u64::MAX / 2);
                    assert!((2..=20).contains(&text.lines().count()), "{text}");
                    let text = drawn(width, length, &values, 0);
                    assert!((2..=20).contains(&text.lines().count()), "{text}");
                }
            }
        }
        assert_eq!(drawn(1, 10, &[], 0), "");
        assert_eq!(drawn(1, 10, &[], 5).lines().count(), 3);
    }

    #[test]
    fn every_value_is_on_one_line() {
        let bins =
            Bins { width_ns: 10, counts: (0..500).map(|bin| bin % 7).collect(), overflow: 9 };
        let total = total(&bins);
        let lines = lines(&bins, total);
        assert_eq!(lines.iter().map(|line| line.count).sum::<u64>(), total);
    }

    #[test]
    fn edges_are_exact() {
        let show = |largest, step, ns| Exact::for_edges(largest, step).show(ns);
        assert_eq!(show(81_000, 50, 80_050), "80.05µs");
        assert_eq!(show(2_000_000_000, 1, 1_000_000_007), "1.000000007s");
        assert_eq!(show(5_000_000, 1_000_000, 3_000_000), "3ms");
        assert_eq!(show(900, 10, 70), "70ns");
    }
}
