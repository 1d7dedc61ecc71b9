//! The live view as cells of a terminal: a pure function of the state and the size.
//!
//! What matters most comes first, and what has no room is left out: 20 columns and 5 rows show the time and the rates. `columns.rs`
//! has the tables.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline, Wrap};
use wirebeat_report::text::style::cut;
use wirebeat_units::human;
use wirebeat_units::printable::printable;

use super::columns::{flows, groups};
use super::view::{FlowLook, GroupLook, RowKey, Seen, View, parts};

/// From so many rows on there is room for pictures.
const TALL: u16 = 18;
/// Rows that ports take at most.
const PORTS: usize = 4;
/// Rows of the picture of rates, with its title.
const RATES: u16 = 4;
/// Rows of the picture of delays, with its title.
const DELAYS: u16 = 7;
/// Rows that notices take at most.
const NOTICES: u16 = 3;
/// Columns of what stands before and behind a bar.
const LABEL: usize = 9;
const SHARE: usize = 10;

const HELP: &[&str] = &[
    "q           stop the run; its report follows",
    "p, space    let the display pause; the run goes on",
    "up, down    select a flow or a group of sessions",
    "s, arrows   sort by name, rate, loss or delay",
    "+, -        10 % more or less of the selected one's rate",
    "            (of a run that was started with --control)",
    "?           show and leave this help",
];

/// How things look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    coloured: bool,
}

impl Theme {
    pub(super) fn of(view: &View) -> Theme {
        Theme { coloured: view.has_colours() }
    }

    fn coloured(self, colour: Color) -> Style {
        if self.coloured { Style::new().fg(colour) } else { Style::new() }
    }

    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn bad(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    fn quiet(self) -> Style {
        self.coloured(Color::DarkGray)
    }

    fn picture(self) -> Style {
        self.coloured(Color::Cyan)
    }

    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

/// What is left of an area.
#[derive(Clone, Copy, Debug)]
struct Left(Rect);

impl Left {
    /// Takes rows at the top.
    fn top(&mut self, rows: u16) -> Rect {
        let height = rows.min(self.0.height);
        let taken = Rect { height, ..self.0 };
        self.0.y = self.0.y.saturating_add(height);
        self.0.height -= height;
        taken
    }

    /// Takes rows at the bottom.
    fn bottom(&mut self, rows: u16) -> Rect {
        let height = rows.min(self.0.height);
        self.0.height -= height;
        Rect { y: self.0.y.saturating_add(self.0.height), height, ..self.0 }
    }
}

/// Draws.
pub fn draw(view: &View, frame: &mut Frame<'_>) {
    let theme = Theme::of(view);
    let mut left = Left(frame.area());
    let tall = left.0.height >= TALL;
    let title = left.top(1);
    frame.render_widget(Paragraph::new(self::title(view, theme, title.width)), title);
    if left.0.height >= 3 {
        let keys = left.bottom(1);
        frame.render_widget(Paragraph::new(last_line(view, theme)), keys);
    }
    if view.shows_help() {
        let lines: Vec<Line<'_>> = HELP.iter().map(|line| Line::from(*line)).collect();
        frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), left.0);
        return;
    }
    let seen = view.seen();
    if tall {
        notices(view, frame, &mut left);
        totals(seen, theme, frame, &mut left);
        ports(view, frame, &mut left);
        rates(seen, theme, frame, left.top(RATES));
        delays(view, theme, frame, &mut left);
    }
    tables(view, theme, frame, left);
}

/// "wirebeat  3.0 s of 10 s  512 Mbit/s  paused".
fn title(view: &View, theme: Theme, width: u16) -> Line<'static> {
    let seen = view.seen();
    let seconds = seen.elapsed.as_secs_f64();
    let mut text = match seen.duration {
        Some(duration) => format!("{seconds:.1} s of {}", human::long_time(duration.get())),
        None => format!("{seconds:.1} s"),
    };
    let state = [("stopping", view.is_stopping()), ("paused", view.is_paused())];
    let state = state.into_iter().find_map(|(word, is)| is.then_some(word));
    if let Some(rate) =
        seen.history.back().filter(|_| seen.total.is_some() || seen.sessions.is_some())
    {
        text += &format!("  {}", human::bit_rate(*rate as f64));
    }
    let name = if width >= 40 { "wirebeat  " } else { "" };
    let state = state.map(|state| Span::styled(format!("{state} "), theme.bad()));
    // the state first: it is seen on any terminal
    let rest = Span::styled(format!("{name}{text}"), theme.strong());
    Line::from(state.into_iter().chain([rest]).collect::<Vec<_>>())
}

/// What came of the last key, or which keys there are.
fn last_line(view: &View, theme: Theme) -> Line<'static> {
    if let Some(message) = view.message() {
        return Line::styled(message.to_owned(), theme.strong());
    }
    let sort = view.sort().name();
    let keys = format!("q stop  ? help  p pause  s sort: {sort}  ↑↓ select  +- rate");
    Line::styled(keys, theme.quiet())
}

/// The latest of what was said.
fn notices(view: &View, frame: &mut Frame<'_>, left: &mut Left) {
    let width = usize::from(left.0.width).max(1);
    let mut lines: Vec<Line<'_>> = Vec::new();
    let mut rows = 0;
    for notice in view.notices().iter().rev() {
        let line = Line::from(notice.as_str());
        let takes = line.width().div_ceil(width).max(1);
        if rows + takes > usize::from(NOTICES) {
            break;
        }
        rows += takes;
        lines.insert(0, line);
    }
    let area = left.bottom(rows as u16);
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
}

/// All flows and all sessions, a line each.
fn totals(seen: &Seen, theme: Theme, frame: &mut Frame<'_>, left: &mut Left) {
    let flows = seen.total.as_ref().map(|total| of_flows(total, theme));
    let sessions = seen.sessions.as_ref().map(|total| of_sessions(total, theme));
    for line in flows.into_iter().chain(sessions) {
        frame.render_widget(Paragraph::new(line), left.top(1));
    }
}

/// What went through each port, a line each: "a (eth1, kernel)  sent 10.0 kpps 5.12 Mbit/s  received -".
fn ports(view: &View, frame: &mut Frame<'_>, left: &mut Left) {
    let all: Vec<_> = view.ports().collect();
    let shown = if all.len() > PORTS { PORTS - 1 } else { all.len() };
    for (port, look) in all.iter().take(shown) {
        let mut text = printable(&port.name).into_owned();
        if !port.place.is_empty() {
            text += &format!(" ({})", printable(&port.place));
        }
        let ways =
            [("sent", look.sent, look.sent_bits), ("received", look.received, look.received_bits)];
        for (word, frames, bits) in ways {
            if let Some(frames) = frames {
                text +=
                    &format!("  {word} {} {}", human::frame_rate(frames), human::bit_rate(bits));
            }
        }
        let line = cut(&text, usize::from(left.0.width));
        frame.render_widget(Paragraph::new(line), left.top(1));
    }
    if all.len() > shown {
        let more = human::counted((all.len() - shown) as u64, "port");
        frame.render_widget(Paragraph::new(format!("and {more} more")), left.top(1));
    }
}

fn of_flows(total: &FlowLook, theme: Theme) -> Line<'static> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    let rate = |word: &str, rate: Option<f64>| {
        rate.map(|rate| Span::raw(format!("{word} {}  ", human::frame_rate(rate))))
    };
    spans.extend(rate("sent", total.sent));
    spans.extend(rate("received", total.received));
    if let Some((lost, of)) = total.lost {
        let style = if lost > 0 { theme.bad() } else { Style::new() };
        let text = match u64::try_from(lost) {
            Ok(0) => "lost 0".to_owned(),
            Ok(some) => format!("lost {} ({})", human::count(some), human::share(some, of)),
            Err(_) => format!("lost -{}", human::count(lost.unsigned_abs())),
        };
        spans.push(Span::styled(text, style));
        let all = total.lost_total.filter(|all| *all > lost);
        let all = all.map(|all| format!(", total {}", human::count(all.unsigned_abs())));
        spans.extend(all.map(Span::raw));
        spans.push(Span::raw("  "));
    }
    if let Some(delay) = &total.delay {
        let percentiles = [("p99", delay.percentiles.p99), ("max", delay.max)];
        let known = percentiles.into_iter().filter_map(|(name, value)| Some((name, value?)));
        spans.extend(
            known.map(|(name, ns)| Span::raw(format!("{name} {}  ", human::short_time(ns as f64)))),
        );
    }
    Line::from(spans)
}

fn of_sessions(total: &GroupLook, theme: Theme) -> Line<'static> {
    let counts = format!(
        "opened {}/s  open {}  responses {}/s  ",
        human::number(total.opened),
        human::count(total.open),
        human::number(total.responses)
    );
    let style = if total.failed > 0 { theme.bad() } else { Style::new() };
    let failed = Span::styled(format!("failed {}", human::count(total.failed)), style);
    Line::from(vec![Span::raw(counts), failed])
}

/// The rate of all in each of the last intervals.
fn rates(seen: &Seen, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    let mut left = Left(area);
    let width = usize::from(area.width);
    let first = seen.history.len().saturating_sub(width);
    let shown: Vec<u64> = seen.history.iter().skip(first).copied().collect();
    let most = shown.iter().copied().max().unwrap_or(0);
    // the picture has few steps, and its sums have limits
    const FULL: u64 = 1000;
    let of_most = |rate: u64| (rate as f64 / most.max(1) as f64 * FULL as f64).ceil() as u64;
    let heights = shown.into_iter().map(of_most).collect::<Vec<u64>>();
    let title = format!("rate, at most {}", human::bit_rate(most as f64));
    frame.render_widget(Paragraph::new(Line::styled(title, theme.quiet())), left.top(1));
    frame
        .render_widget(Sparkline::default().data(heights).max(FULL).style(theme.picture()), left.0);
}

/// The delays of the selected flow in the last interval.
fn delays(view: &View, theme: Theme, frame: &mut Frame<'_>, left: &mut Left) {
    let Some((key, delay)) = view.delays() else { return };
    let rows = parts(&delay.histogram, usize::from(DELAYS) - 1);
    let all = rows.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
    if all == 0 {
        return;
    }
    let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let width = usize::from(left.0.width);
    let room = width.saturating_sub(LABEL + SHARE + 2);
    let title = format!("delay of {}", key.shown());
    let mut lines = vec![Line::styled(title, theme.quiet())];
    lines.extend(rows.into_iter().map(|(bound, count)| {
        let label = match bound {
            i64::MAX => "more".to_owned(),
            bound => format!("≤ {}", human::short_time(bound as f64)),
        };
        let share = (count as f64 / most as f64 * room as f64).round() as usize;
        let bar = "█".repeat(share.max(usize::from(count > 0)).min(room));
        Line::from(vec![
            Span::raw(format!("{label:>LABEL$} ")),
            Span::styled(bar, theme.picture()),
            Span::raw(format!(" {}", human::share(count, all))),
        ])
    }));
    let area = left.bottom(lines.len() as u16);
    frame.render_widget(Paragraph::new(lines), area);
}

/// The flows, and below them the groups of sessions.
fn tables(view: &View, theme: Theme, frame: &mut Frame<'_>, mut left: Left) {
    let rows = view.rows();
    let place = view.place();
    let split = rows.iter().position(|(key, _)| matches!(key, RowKey::Group(..)));
    let (of_flows, of_groups) = rows.split_at(split.unwrap_or(rows.len()));
    if of_flows.is_empty() && of_groups.is_empty() {
        let line = cut("waiting for the end of the first interval", usize::from(left.0.width));
        frame.render_widget(Paragraph::new(line), left.0);
        return;
    }
    let needs = |rows: usize| u16::try_from(rows.saturating_add(1)).unwrap_or(u16::MAX);
    if !of_groups.is_empty() {
        let most = if of_flows.is_empty() { u16::MAX } else { left.0.height / 2 };
        let area = match of_flows.is_empty() {
            true => left.top(most),
            false => left.bottom(needs(of_groups.len()).min(most)),
        };
        groups(of_groups, place.checked_sub(of_flows.len()), theme).draw(frame, area);
    }
    if !of_flows.is_empty() {
        flows(of_flows, Some(place).filter(|place| *place < of_flows.len()), theme)
            .draw(frame, left.0);
    }
}
