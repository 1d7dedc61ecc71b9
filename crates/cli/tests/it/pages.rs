//! The pages in a browser: nothing fails, nothing is wider than a phone, every word can be read in light and dark, and paper has what the
//! screen has.

use std::fs;
use std::process::Command;

use wirebeat_testbed::{Capability, require};

use crate::{Scratch, run};

/// A report with histograms.
const TWO_FLOWS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../report/tests/golden/two_flows.json");

/// What the page tells of itself: its width, whether it scrolls sideways, whether it is dark, the least contrast of its words and whose
/// that is, and what failed. It stands before the policy, which would refuse it. The contrast is that of WCAG 2.2, 1.4.3.
const PROBE: &str = "<head><script>const bad = [];
addEventListener('error', (event) => bad.push(event.message));
addEventListener('securitypolicyviolation', (event) => bad.push(event.violatedDirective));
addEventListener('load', () => {
  const numbers = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const dark = matchMedia('(prefers-color-scheme:dark)').matches;
  const linear = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const ground = (of) => {
    for (; of; of = of.parentElement) {
      const is = numbers(getComputedStyle(of).backgroundColor);
      if (is.length && is[3] !== 0) return is;
    }
    return dark ? [18, 18, 18] : [255, 255, 255];
  };
  let [least, whose] = [99, ''];
  for (const one of document.querySelectorAll('body *')) {
    const own = [...one.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !one.getClientRects().length || one.closest('title, desc, script, style')) continue;
    const style = getComputedStyle(one);
    const ink = numbers(one.closest('svg') ? style.fill : style.color);
    const [more, less] = [light(ink), light(ground(one))].sort((x, y) => y - x);
    const ratio = (more + 0.05) / (less + 0.05);
    if (ratio < least) [least, whose] = [ratio, `${one.tagName} ${one.textContent.slice(0, 30)}`];
  }
  const fits = document.documentElement.scrollWidth <= innerWidth;
  const back = light(ground(document.body)) < 0.2;
  parent.postMessage([innerWidth, fits, dark, back, least >= 4.5 || `${least} ${whose}`, bad.join()].join(' '), '*');
});</script>";

/// Runs the browser; its document, its log.
fn chromium(scratch: &Scratch, arguments: &[&str]) -> (String, String) {
    let profile = format!("--user-data-dir={}", scratch.path("profile"));
    let ended = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=800,900"])
        .args(["--virtual-time-budget=5000", "--enable-logging=stderr", &profile])
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&ended.stdout), text(&ended.stderr))
}

/// A page in a frame as wide as a phone, which tells what the page's probe tells it; the document that the browser makes of it, and its log.
fn on_a_phone(scratch: &Scratch, page: &str, probe: &str, flags: &[&str]) -> (String, String) {
    let text = fs::read_to_string(page).unwrap();
    assert!(text.contains("<head>"), "{page}");
    // before the policy, which would refuse it
    let probed = scratch.file("probed.html", text.replacen("<head>", probe, 1).as_bytes());
    let frame = format!(
        "<iframe src=\"file://{probed}\" width=360 height=800 style=\"border:0\"></iframe>\
         <script>onmessage = (event) => {{ document.body.textContent = `told:${{event.data}}:` }}</script>"
    );
    let frame = format!("file://{}", scratch.file("frame.html", frame.as_bytes()));
    chromium(scratch, &[&["--dump-dom", &frame], flags].concat())
}

/// A page of each kind, with words that stand on it.
fn pages(scratch: &Scratch) -> Vec<(String, &'static [&'static str])> {
    let packet = "packet: [ { ipv4: { destination: 10.0.0.2 } }, { udp: {} } ]";
    let text = format!(
        "ports: {{ a: {{ engine: loopback }}, b: {{ engine: loopback }} }}\nvariables: {{ rate: 1kpps }}\n\
         flows: {{ voice: {{ from: a, to: b, rate: '${{rate}}', {packet}, expect: [ 'loss == 0%' ] }} }}\n\
         run: {{ time: 2s }}\n"
    );
    let file = scratch.file("lab.yaml", text.as_bytes());
    let rfc2544 = format!(
        "test rfc2544 {file} --quick --trial 100ms --max-rate 5kpps --sizes 64B,512B,9000B --measure all --latency-time 100ms \
         --burst-time 10ms --overload-time 100ms --recovery-time 100ms --repeat 2 --at-least 1kpps"
    );
    let lines: [(String, &[&str]); 7] = [
        (format!("report {TWO_FLOWS}"), &["voice", "bulk"]),
        (format!("report {TWO_FLOWS} {TWO_FLOWS}"), &["voice", "bulk"]),
        (format!("run {file} --interval 200ms"), &["PASS", "voice", "loss == 0%"]),
        (rfc2544, &["PASS", "RFC 2544", "64B", "512B", "Frame loss rate", "System recovery"]),
        (format!("sweep {file} --over rate=1kpps,2kpps"), &["PASS", "2kpps"]),
        (
            format!("test y1564 {file} --step-time 100ms --performance-time 200ms"),
            &["PASS", "voice"],
        ),
        (format!("test soak {file} --time 12s"), &["voice"]),
    ];
    let made = (0..).zip(lines).map(|(number, (line, words))| {
        let page = scratch.path(&format!("page{number}.html"));
        let ended = run(&line.split_whitespace().chain(["--html", &page]).collect::<Vec<_>>());
        assert_eq!(ended.code, 0, "{line}: {ended:?}");
        (page, words)
    });
    made.collect()
}

#[test]
fn every_page_fits_a_phone_and_is_legible_in_light_and_dark() {
    require!(Capability::Program("chromium"));
    let scratch = Scratch::new("pages");
    let studies = ["generators", "pktgen"]
        .map(|name| format!("{}/../../docs/{name}.html", env!("CARGO_MANIFEST_DIR")));
    for page in pages(&scratch).into_iter().map(|(page, _)| page).chain(studies) {
        // as Blink numbers them
        for (scheme, dark) in [(0, true), (1, false)] {
            let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
            let (dom, log) = on_a_phone(&scratch, &page, PROBE, &[&scheme]);
            let told = format!("told:360 true {dark} {dark} true :");
            let says = dom.find("told:").map_or(dom.as_str(), |from| &dom[from..]);
            assert!(dom.contains(&told), "{page}: {says}\n{log}");
            assert!(!log.contains("CONSOLE"), "{log}");
        }
    }
}

/// The script sorts and filters, and the policy refuses nothing of it.
#[test]
fn the_table_of_flows_sorts_and_filters_in_a_browser() {
    require!(Capability::Program("chromium"));
    let scratch = Scratch::new("pages-sort");
    let [one, two] = ["one.html", "two.html"].map(|name| scratch.path(name));
    assert_eq!(run(&["report", TWO_FLOWS, "--html", &one]).code, 0);
    assert_eq!(run(&["report", TWO_FLOWS, TWO_FLOWS, "--html", &two]).code, 0);
    let probe = "<head><script>const bad = [];\
        addEventListener('error', (event) => bad.push(event.message));\
        document.addEventListener('securitypolicyviolation', (event) => bad.push(event.violatedDirective));\
        addEventListener('load', () => {\
          const wide = document.documentElement.scrollWidth;\
          const rows = () => [...document.querySelectorAll('#flows tbody tr')];\
          const names = () => rows().filter((row) => !row.hidden).map((row) => row.cells[0].textContent).join();\
          const told = [innerWidth, wide <= innerWidth, names()];\
          document.querySelector('#flows thead button')?.click();\
          told.push(names());\
          const input = document.querySelector('.filter input');\
          if (input) { input.value = 'VOI'; input.dispatchEvent(new Event('input')); }\
          told.push(names());\
          parent.postMessage([...told, bad.join()].join(' '), '*');\
        });</script>";
    for (page, told) in [(&one, "360 true voice,bulk bulk,voice voice "), (&two, "360 true    ")] {
        let (dom, log) = on_a_phone(&scratch, page, probe, &[]);
        assert!(dom.contains(&format!("told:{told}:")), "{page}: {dom}\n{log}");
        assert!(!log.contains("CONSOLE"), "{log}");
    }
}

#[test]
fn every_page_can_be_printed() {
    require!(Capability::Program("chromium"), Capability::Program("pdftotext"));
    let scratch = Scratch::new("pages-paper");
    for (page, words) in pages(&scratch) {
        let pdf = scratch.path("page.pdf");
        let to = format!("--print-to-pdf={pdf}");
        let (_, log) =
            chromium(&scratch, &[&to, "--no-pdf-header-footer", &format!("file://{page}")]);
        let ended = Command::new("pdftotext").args(["-layout", &pdf, "-"]).output().unwrap();
        assert!(ended.status.success(), "{ended:?}\n{log}");
        let text = String::from_utf8_lossy(&ended.stdout);
        for word in words {
            assert!(text.contains(word), "{page}: no '{word}' in\n{text}");
        }
        // the verdict is on the first sheet
        let first = text.split('\u{c}').next().unwrap();
        assert!(
            ["PASS", "Done", "side by side", "reports"].iter().any(|word| first.contains(word)),
            "{page}: {first}"
        );
        // a heading does not end a sheet, and no sheet is empty
        let sheets = text.trim_end_matches('\u{c}').split('\u{c}');
        assert!(sheets.clone().count() < 12, "{page}: {} sheets", sheets.count());
        assert!(sheets.clone().all(|sheet| !sheet.trim().is_empty()), "{page}: an empty sheet");
        fs::remove_file(pdf).unwrap();
    }
}
