//! Long series in few points: what stands out stays.

/// A value over a time of a run, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// When it began.
    pub from_ns: f64,
    /// When it ended.
    pub to_ns: f64,
    /// The value; `None` where there was none.
    pub value: Option<f64>,
}

impl Span {
    /// A value at a moment.
    pub fn point(at_ns: f64, value: f64) -> Span {
        Span { from_ns: at_ns, to_ns: at_ns, value: Some(value) }
    }

    /// Whether it is of a moment.
    pub fn is_point(&self) -> bool {
        self.from_ns == self.to_ns
    }
}

/// Points of `spans` by time. Up to `columns` spans, each has its beginning and its end, or its moment. Of more, each of `columns` equal times has
/// its smallest and its largest value, in their order: a single span that differs stays.
pub fn points(spans: &[Span], columns: usize) -> Vec<Option<(f64, f64)>> {
    if spans.len() <= columns.max(1) {
        let mut out = Vec::with_capacity(spans.len() * 2);
        for span in spans {
            match span.value {
                Some(value) if span.is_point() => out.push(Some((span.from_ns, value))),
                Some(value) => out.extend([Some((span.from_ns, value)), Some((span.to_ns, value))]),
                None => out.push(None),
            }
        }
        return out;
    }
    let mut out = Vec::with_capacity(columns * 2);
    let columns = columns.max(1);
    for column in 0..columns {
        let bounds = [column, column + 1].map(|of| of * spans.len() / columns);
        let part = spans.get(bounds[0]..bounds[1]).unwrap_or_default();
        let middle = |span: &Span| (span.from_ns + span.to_ns) / 2.0;
        let known = || part.iter().filter_map(|span| Some((middle(span), span.value?)));
        let least = known().reduce(|a, b| if b.1 < a.1 { b } else { a });
        let most = known().reduce(|a, b| if b.1 > a.1 { b } else { a });
        match (least, most) {
            (Some(least), Some(most)) if least.0 == most.0 => out.push(Some(least)),
            (Some(least), Some(most)) if least.0 < most.0 => out.extend([Some(least), Some(most)]),
            (Some(least), Some(most)) => out.extend([Some(most), Some(least)]),
            _ => out.push(None),
        }
    }
    out
}
