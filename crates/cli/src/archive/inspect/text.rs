//! What is in an archive, for a person: what there is of everything, then the devices, then the first records.

use wirebeat_archive::survey::{Gaps, GapsNs, Sizes, Survey};
use wirebeat_report::text::WIDTH;
use wirebeat_report::text::style::{Style, clean, hang, width};
use wirebeat_report::text::table::Table;
use wirebeat_units::human::{self, count, counted, share};

use super::{InspectDocument, SHOWN, Shown};

/// Columns of the words in front of each line.
const LABEL: usize = 10;

/// All of it.
pub fn text(document: &InspectDocument, style: Style) -> String {
    let survey = &document.survey;
    let source = if document.from_index { "  (from its index)" } else { "" };
    let mut text = format!("{}{source}\n", style.strong(&clean(&document.archive)));
    for (label, what) in lines(survey, style) {
        let prefix = format!("  {label:LABEL$}");
        text += &hang(&prefix, &what, WIDTH);
        text.push('\n');
    }
    if !survey.devices.listed.is_empty() {
        text.push('\n');
        text += &devices(document, style);
    }
    if !document.first_records.is_empty() {
        text.push('\n');
        text += &records(&document.first_records, style);
    }
    text
}

fn lines(survey: &Survey, style: Style) -> Vec<(&'static str, String)> {
    let mut lines = vec![("records", amount(survey))];
    if survey.bad > 0 {
        let what = format!(
            "{} with {} that are of no record",
            counted(survey.bad, "place"),
            counted(survey.skipped_bytes, "byte")
        );
        lines.push(("skipped", style.bad(&what)));
    }
    if let (Some(first), Some(last)) = (survey.first, survey.last) {
        lines.push(("time", format!("{first} to {last}")));
        lines.push(("span", human::long_time(survey.span_us().saturating_mul(1_000))));
    }
    if let (Some(rate), Some(bits)) = (survey.rate(), survey.data_bit_rate()) {
        let rate = human::number(rate);
        lines.push(("rate", format!("{rate} records/s, {} of data", human::bit_rate(bits))));
    }
    if survey.records > 0 {
        lines.push(("order", order(survey, style)));
    }
    if let Some(data) = &survey.data {
        lines.push(("data", sizes(data)));
        if data.distinct > 1 {
            lines.push(("", frequent(data, survey.records)));
        }
    }
    if let Some(between) = &survey.gaps {
        lines.push(("gaps", gaps(between)));
        if between.same > 0 {
            lines.push(("", same(between, survey.records)));
        }
    }
    if !survey.zones.is_empty() {
        let name = |zone: &str| if zone == "Z" { "UTC".to_owned() } else { zone.to_owned() };
        let zones: Vec<String> = match &survey.zones[..] {
            [one] => vec![name(&one.zone)],
            several => several
                .iter()
                .map(|zone| {
                    format!("{} ({})", name(&zone.zone), share(zone.records, survey.records))
                })
                .collect(),
        };
        lines.push(("zones", zones.join(", ")));
    }
    lines
}

fn amount(survey: &Survey) -> String {
    let data = survey.data.as_ref().map_or(0, |data| data.total);
    format!(
        "{} in {}, {} of it data",
        count(survey.records),
        human::bytes(survey.bytes as f64),
        human::bytes(data as f64)
    )
}

fn order(survey: &Survey, style: Style) -> String {
    let backwards = survey.backwards;
    let Some(first) = backwards.first else { return "by time".to_owned() };
    style.bad(&format!(
        "time runs backwards {}, by {} at most; the first is {first}",
        counted(backwards.records, "time"),
        human::time(backwards.max_us as f64 * 1e3)
    ))
}

fn sizes(data: &Sizes) -> String {
    if data.distinct <= 1 {
        return format!("{} B each", count(data.min));
    }
    let (min, max) = (count(data.min), count(data.max));
    format!("{min} B to {max} B, mean {:.1} B, {} lengths", data.mean, count(data.distinct))
}

fn frequent(data: &Sizes, records: u64) -> String {
    let one = |bytes, of: u64| format!("{} B ({})", count(bytes), share(of, records));
    let sizes: Vec<String> =
        data.frequent.iter().map(|size| one(size.bytes, size.records)).collect();
    let some = data.distinct as usize > data.frequent.len();
    format!("{}{}", if some { "most often " } else { "" }, sizes.join(", "))
}

fn gaps(gaps: &Gaps) -> String {
    let [min, median, p99, max] = match gaps.ns {
        Some(GapsNs { min, median, p99, max }) => [min, median, p99, max].map(human::long_time),
        None => [gaps.min_us, gaps.median_us, gaps.p99_us, gaps.max_us]
            .map(|us| human::long_time(us.saturating_mul(1_000))),
    };
    format!("min {min}, median {median}, p99 {p99}, max {max}")
}

fn same(gaps: &Gaps, records: u64) -> String {
    let share = share(gaps.same, records.saturating_sub(1));
    format!("{} ({share}) at the moment of the one before", counted(gaps.same, "record"))
}

fn devices(document: &InspectDocument, style: Style) -> String {
    let survey = &document.survey;
    let mut table = Table::new(&["device", "records", "share", "bytes"]);
    for one in &survey.devices.listed {
        table.row(vec![
            clean(&one.text()).into(),
            count(one.records).into(),
            share(one.records, survey.records).into(),
            human::bytes(one.bytes as f64).into(),
        ]);
    }
    let many = counted(document.device_count, "device");
    let shown = survey.devices.listed.len() as u64;
    let more = document.device_count - shown;
    let others = survey.devices.records_of_others;
    let mut text = match (more, others) {
        (0, 0) => format!("  {many}\n"),
        (_, 0) => format!("  {many}; those with most records (--devices lists all)\n"),
        _ => format!("  {many} were counted, and there are more, with {others} records\n"),
    };
    text += &table.render(2, style);
    if more > 0 {
        text += &format!("  … {} more\n", count(more));
    }
    text
}

fn records(records: &[Shown], style: Style) -> String {
    let widest = |text: &dyn Fn(&Shown) -> String, title: &str| {
        records.iter().map(|record| width(&text(record))).fold(title.len(), usize::max)
    };
    let number = |record: &Shown| record.place.number.to_string();
    let time = |record: &Shown| record.time.to_string();
    let device = |record: &Shown| clean(&record.device);
    let bytes = |record: &Shown| record.data_bytes.to_string();
    let (n, t) = (widest(&number, "record"), widest(&time, "time"));
    let (d, b) = (widest(&device, "device"), widest(&bytes, "bytes"));
    let heading =
        format!("  {:>n$}  {:t$}  {:d$}  {:>b$}  data", "record", "time", "device", "bytes");
    let mut text = style.strong(&heading);
    text.push('\n');
    for record in records {
        let device = device(record);
        let device = format!("{device}{}", " ".repeat(d - width(&device)));
        let line = format!(
            "  {:>n$}  {:t$}  {device}  {:>b$}  {}",
            number(record),
            time(record),
            bytes(record),
            dump(record)
        );
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// The first bytes, in hexadecimal digits and as far as they can be printed.
fn dump(record: &Shown) -> String {
    let hex: Vec<String> = record.data.iter().map(|byte| format!("{byte:02x}")).collect();
    let plain = |&byte: &u8| if (0x20..0x7f).contains(&byte) { char::from(byte) } else { '.' };
    let text: String = record.data.iter().map(plain).collect();
    let more = if record.data_bytes > SHOWN { "…" } else { "" };
    format!("{:wide$}  {text}{more}", hex.join(" "), wide = SHOWN * 3 - 1)
}
