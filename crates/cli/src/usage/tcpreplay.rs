//! The flags of tcpreplay, as those of `replay`.

use std::fs::File;
use std::io::BufReader;

use wirebeat_archive::capture::Frames;
use wirebeat_archive::time_series::OnBad;
use wirebeat_units::{Fault, Nanos, fault};

use super::foreign::{
    ForeignFlag, Scanned, Translation, Untranslated, positive, put, put_flag, row, seconds, set,
    whole,
};
use crate::command::NAME;

/// The most frames of a capture that are read to know how fast it is: some seconds' work.
const FRAMES_MAX: u64 = 5_000_000;

/// What its flags say together.
#[derive(Debug, Default)]
pub(super) struct Replay {
    flags: Vec<String>,
    speed: Option<Speed>,
}

#[derive(Debug)]
enum Speed {
    /// The time between two frames.
    Gap(Nanos),
    /// A multiple of the recorded one.
    Factor(String),
    /// Megabits a second.
    Megabits(f64),
}

/// Its flags. Those without an effect on what is sent are left out.
pub(super) const FLAGS: &[ForeignFlag<Replay>] = &[
    row(&["-i", "--intf1"], true, |replay, name| put(&mut replay.flags, "--interface", name)),
    row(&["-p", "--pps"], true, |replay, rate| {
        let rate = number(rate)?;
        // as close as nanoseconds come
        let gap = Nanos::new((1e9 / rate).round().max(1.0) as u64);
        set(&mut replay.speed, Speed::Gap(gap))
    }),
    row(&["-M", "--mbps"], true, |replay, rate| {
        set(&mut replay.speed, Speed::Megabits(number(rate)?))
    }),
    row(&["-t", "--topspeed"], false, |replay, _| set(&mut replay.speed, Speed::Gap(Nanos::ZERO))),
    row(&["-x", "--multiplier"], true, |replay, factor| {
        number(factor)?;
        set(&mut replay.speed, Speed::Factor(factor.to_owned()))
    }),
    row(&["-l"], true, |replay, times| match times {
        "0" => Err(
            fault!("a replay without an end has no flag"; "write a large number: --loop 1000000"),
        ),
        times => put(&mut replay.flags, "--loop", &whole(times)?.to_string()),
    }),
    row(&["-L", "--limit"], true, |replay, count| {
        put(&mut replay.flags, "--count", &whole(count)?.to_string())
    }),
    row(&["--duration"], true, |replay, time| put(&mut replay.flags, "--time", &secs(time)?)),
    row(&["-K", "--preload-pcap", "-k", "--enable-file-cache"], false, |replay, _| {
        put_flag(&mut replay.flags, "--preload")
    }),
    row(&["--stats"], true, |replay, time| put(&mut replay.flags, "--interval", &secs(time)?)),
    row(&["--maxsleep"], true, |replay, time| {
        put(&mut replay.flags, "--max-gap", &format!("{}ms", whole(time)?))
    }),
    row(&["-v", "--verbose"], false, |replay, _| put_flag(&mut replay.flags, "--details")),
    // deadlines are awaited exactly, and nothing is printed for each packet
    row(&["-T", "--timer"], true, |_, _| Ok(())),
    row(&["-q", "--quiet", "-W", "--suppress-warnings"], false, |_, _| Ok(())),
    row(&["-I", "--intf2", "-c", "--cachefile"], true, |_, _| {
        Err(fault!(
            "a replay has one interface";
            "run it twice: with --side client at one interface and --side server at the other"
        ))
    }),
    row(&["-D", "--dualfile"], false, |_, _| {
        Err(fault!("a replay has one interface"; "run it twice, each with its file and interface"))
    }),
    row(&["-o", "--oneatatime"], false, |_, _| {
        Err(
            fault!("frames do not wait for a key"; "leave it out, or cut the file with tshark first"),
        )
    }),
    row(&["--pps-multi"], true, |_, _| {
        Err(fault!("frames of a replay leave one by one"; "leave it out"))
    }),
    row(&["--unique-ip"], false, |_, _| {
        Err(
            fault!("each round has the same addresses"; "leave it out, or map them with --map-address"),
        )
    }),
    row(&["--loopdelay-ms"], true, |_, _| {
        Err(fault!("a round follows right behind the one before it"; "leave it out"))
    }),
];

/// Its line as one of ours.
pub(super) fn line(scanned: Scanned<Replay>) -> Result<Option<Translation>, Untranslated> {
    let Scanned { said, ours, names, .. } = scanned;
    let mut note = "the same is".to_owned();
    let speed = match said.speed {
        None => Vec::new(),
        Some(Speed::Gap(Nanos::ZERO)) => vec!["--tight-loop".to_owned(), "0".to_owned()],
        Some(Speed::Gap(gap)) => vec!["--tight-loop".to_owned(), gap.to_string()],
        Some(Speed::Factor(factor)) => vec!["--fast-forward".to_owned(), format!("{factor}x")],
        Some(Speed::Megabits(wanted)) => {
            let recorded = megabits(&names).map_err(|fault| ("--mbps".to_owned(), fault))?;
            note = format!(
                "the capture has {recorded:.3} Mbit/s on average; with the times between frames in proportion the same is"
            );
            vec!["--fast-forward".to_owned(), format!("{}x", millionths(wanted / recorded))]
        }
    };
    let line = [NAME.to_owned(), "replay".to_owned()].into_iter().chain(names);
    Ok(Some(Translation { line: line.chain(said.flags).chain(speed).chain(ours).collect(), note }))
}

/// Megabits a second of a capture, from its first frame to its last, counted as tcpreplay does: without the FCS.
fn megabits(names: &[String]) -> Result<f64, Fault> {
    let [name] = names else {
        return Err(fault!(
            "the rate of several captures together is not known";
            "give --fast-forward, a multiple of the recorded speed"
        ));
    };
    let unknown = |why: String| {
        fault!(
            "how fast '{name}' is has to be known, and {why}";
            "give --fast-forward, a multiple of the recorded speed"
        )
    };
    let file =
        wirebeat_run::open_regular(name.as_ref()).map_err(|error| unknown(error.to_string()))?;
    let file: File = file.ok_or_else(|| unknown("it is not a regular file".to_owned()))?;
    let mut frames = Frames::new(BufReader::new(file), name.as_str(), OnBad::Skip);
    let (mut bytes, mut first, mut last) = (0_u64, None, None);
    while frames.advance().map_err(|error| unknown(error.to_string()))? {
        let frame = frames.frame();
        bytes = bytes.saturating_add(frame.original.into());
        if let Some(time) = frame.time_ns {
            first.get_or_insert(time);
            last = Some(time);
        }
        if frames.tally().frames > FRAMES_MAX {
            return Err(unknown(format!("it has more than {FRAMES_MAX} frames")));
        }
    }
    let passed = first.zip(last).map_or(0, |(first, last): (i64, i64)| last.saturating_sub(first));
    match (bytes, passed) {
        (1.., 1..) => Ok(bytes as f64 * 8e3 / passed as f64),
        _ => Err(unknown("its frames have no time between them".to_owned())),
    }
}

/// A factor as it can be written: of whole millionths, and not zero.
fn millionths(factor: f64) -> String {
    let text = format!("{:.6}", factor.max(1e-6));
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn number(text: &str) -> Result<f64, Fault> {
    positive(text).ok_or_else(
        || fault!("'{text}' is not a number above zero"; "write for example 100 or 2.5"),
    )
}

fn secs(text: &str) -> Result<String, Fault> {
    seconds(text).ok_or_else(|| fault!("'{text}' is not a time in seconds"; "write for example 10"))
}

#[cfg(test)]
mod tests {
    use super::super::foreign::tests::{assert_each_is_tried, line_of_ours, told};
    use super::*;

    /// Lines of tcpreplay behind `wirebeat replay`, and ours.
    const LINES: &[(&str, &str)] = &[
        ("-i eth1 a.pcap", "replay a.pcap --interface eth1"),
        ("--intf1=eth1 --topspeed a.pcap", "replay a.pcap --interface eth1 --tight-loop 0"),
        ("-ieth1 -t a.pcap b.pcap", "replay a.pcap b.pcap --interface eth1 --tight-loop 0"),
        ("-i eth1 --pps 1000 a.pcap", "replay a.pcap --interface eth1 --tight-loop 1ms"),
        ("-i eth1 -p 3 a.pcap", "replay a.pcap --interface eth1 --tight-loop 333333333ns"),
        (
            "-i eth1 -p 0.5 --loop 3 a.pcap",
            "replay a.pcap --interface eth1 --tight-loop 2s --loop 3",
        ),
        ("-i eth1 --multiplier 2.5 a.pcap", "replay a.pcap --interface eth1 --fast-forward 2.5x"),
        ("-x 10 -l 5 -i eth1 a.pcap", "replay a.pcap --loop 5 --interface eth1 --fast-forward 10x"),
        (
            "-i eth1 --limit 100 --duration=30 -K --stats 1 --maxsleep 500 -v -q -T nano a.pcap --filter arp",
            "replay a.pcap --interface eth1 --count 100 --time 30s --preload --interval 1s --max-gap 500ms --details \
             --filter arp",
        ),
    ];

    /// Lines that nothing of ours says, and what is told.
    const NONE: &[(&str, &str)] = &[
        ("-i eth1 -I eth2 -c x a.pcap", "--side client"),
        ("-i eth1 -D a.pcap b.pcap", "run it twice"),
        ("-i eth1 -o a.pcap", "frames do not wait for a key"),
        ("-i eth1 --pps-multi 5 a.pcap", "leave one by one"),
        ("-i eth1 --unique-ip a.pcap", "--map-address"),
        ("-i eth1 --loopdelay-ms 5 a.pcap", "right behind"),
        ("-i eth1 -l 0 a.pcap", "a replay without an end"),
        ("-i eth1 --pps 0 a.pcap", "'0' is not a number above zero"),
        ("-i eth1 --mbps 100 /nonexistent.pcap", "give --fast-forward"),
        ("-i eth1 -M 100 a.pcap b.pcap", "several captures together"),
    ];

    #[test]
    fn lines_of_tcpreplay_are_answered_with_ours() {
        for (line, ours) in LINES {
            assert_eq!(line_of_ours(&format!("replay {line}")), *ours, "{line}");
            crate::replay::tests::of(ours.strip_prefix("replay ").unwrap()).unwrap();
        }
    }

    #[test]
    fn what_nothing_of_ours_says_is_told_with_the_flag() {
        for (line, says) in NONE {
            let said = told(&format!("replay {line}")).sentence();
            assert!(
                said.contains(says) && said.contains(" is a flag of tcpreplay"),
                "{line}: {said}"
            );
        }
    }

    /// A bit rate is a multiple of that of the file.
    #[test]
    fn a_bit_rate_is_a_factor_of_the_capture() {
        let path = std::env::temp_dir().join(format!("wirebeat-mbps-{}.pcap", std::process::id()));
        // three frames of 1,000 bytes in 3 ms: 8 Mbit/s
        let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
        file.extend([0_u32, 0, 65_535, 1].iter().flat_map(|word| word.to_le_bytes()));
        for micros in [0_u32, 1000, 3000] {
            file.extend([7_u32, micros, 1000, 1000].iter().flat_map(|word| word.to_le_bytes()));
            file.extend([0; 1000]);
        }
        std::fs::write(&path, file).unwrap();
        let name = path.display();
        let said = told(&format!("replay -i eth1 --mbps 100 {name}")).sentence();
        std::fs::remove_file(&path).unwrap();
        let ours = format!(": wirebeat replay {name} --interface eth1 --fast-forward 12.5x");
        assert!(said.ends_with(&ours) && said.contains("8.000 Mbit/s on average"), "{said}");
        assert_eq!(
            [millionths(1e-9), millionths(2.0), millionths(1.0 / 3.0)],
            ["0.000001", "2", "0.333333"]
        );
    }

    #[test]
    fn each_flag_of_the_table_is_tried() {
        let lines = LINES.iter().chain(NONE).map(|(line, _)| *line);
        assert_each_is_tried(FLAGS, lines);
    }
}
