//! Attempts at a trial: which of them counts, and when it is known.
//!
//! The tester may have lost what was lost, by a fault that it knows of, or because it was late and sent many frames at once. Such a trial
//! is made again. But a device that loses frames at random loses none now and then: if the best of several attempts counted, it
//! would be asked several times and pass more often than by one trial. So an attempt that loses nothing after one that did counts only
//! where the device would hardly have lost nothing, if it lost as before.

use wirebeat_report::test_report::TrialReport;

/// How often a trial is made in which the tester disturbed itself, or which may have lost what left at once.
pub(crate) const ATTEMPTS: u32 = 3;
/// Below this share of a load, trying again does not help: the tester is too slow, and not only disturbed.
pub(crate) const FAR_BELOW: f64 = 0.95;
/// So many frames would have been lost in the attempts that lost nothing, if the device lost as in the others. That it loses none by
/// chance has a probability of exp(-6), one in 400.
const EXPECTED: f64 = 6.0;

/// Attempts so far. `R` is what is kept beside each.
#[derive(Clone, Debug)]
pub(crate) struct Attempts<R> {
    made: u32,
    /// Those that the tester disturbed, and the one of them that says most.
    disturbed: (u32, Option<(TrialReport, R)>),
    /// Those that lost frames with no fault of the tester that it knows of, the frames of all, and the one that lost fewest.
    losing: (u32, u64, Option<(TrialReport, R)>),
    /// Those that lost nothing, and the last of them.
    clean: (u32, Option<(TrialReport, R)>),
}

impl<R> Attempts<R> {
    pub(crate) fn new() -> Attempts<R> {
        Attempts { made: 0, disturbed: (0, None), losing: (0, 0, None), clean: (0, None) }
    }

    /// Takes one that says nothing of the device; whether it was the last.
    pub(crate) fn unsound(&mut self) -> bool {
        self.made += 1;
        self.disturbed.0 += 1;
        self.disturbed.0 >= ATTEMPTS
    }

    /// Takes one; whether it was the last. `of_burst`: what was lost may be what left at once.
    pub(crate) fn take(&mut self, trial: TrialReport, run: R, of_burst: bool) -> bool {
        if trial.is_limited() || trial.lost > 0 && trial.doubt.is_some() {
            let hopeless = trial.offered < trial.intended * FAR_BELOW;
            if self.disturbed.1.as_ref().is_none_or(|(before, _)| better(&trial, before)) {
                self.disturbed.1 = Some((trial, run));
            }
            return self.unsound() || hopeless;
        }
        self.made += 1;
        if trial.lost == 0 {
            self.clean = (self.clean.0 + 1, Some((trial, run)));
            return self.is_clean();
        }
        self.losing.0 += 1;
        self.losing.1 = self.losing.1.saturating_add(trial.lost);
        if self.losing.2.as_ref().is_none_or(|(before, _)| trial.lost < before.lost) {
            self.losing.2 = Some((trial, run));
        }
        if !of_burst {
            // the device's own, whatever other attempts lost
            self.clean = (0, None);
        }
        !of_burst || self.losing.0 >= ATTEMPTS
    }

    /// Whether the attempts that lost nothing show that the device does not.
    fn is_clean(&self) -> bool {
        let (losing, lost, _) = self.losing;
        let needed = match losing {
            0 => 1,
            losing => {
                let each = lost as f64 / f64::from(losing);
                (EXPECTED / each).ceil().clamp(1.0, f64::from(ATTEMPTS)) as u32
            }
        };
        self.clean.0 >= needed
    }

    /// The one that counts, with how often it was made again; `None` where none is sound.
    pub(crate) fn counts(self) -> Option<(TrialReport, R)> {
        let is_clean = self.is_clean();
        let (clean, losing, disturbed) = (self.clean.1, self.losing.2, self.disturbed.1);
        let counts = if is_clean { clean } else { losing.or(disturbed) };
        let repeated = self.made.saturating_sub(1);
        counts.map(|(trial, run)| (TrialReport { repeated, ..trial }, run))
    }
}

/// Whether a trial says more than the one before it: it offered more, then it is not doubtful, then it lost less.
pub(crate) fn better(trial: &TrialReport, before: &TrialReport) -> bool {
    let more = trial.offered > before.offered * 1.0001;
    let same = trial.offered > before.offered * wirebeat_report::model::OFFERED;
    more && !(trial.doubt.is_some() && before.doubt.is_none())
        || same && trial.doubt.is_none() && before.doubt.is_some()
        || same && trial.loss_ratio < before.loss_ratio
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(lost: u64) -> TrialReport {
        TrialReport {
            purpose: "throughput".to_owned(),
            intended: 1_000.0,
            offered: 1_000.0,
            trial_ns: 1_000_000_000,
            sent: 1_000,
            received: 1_000 - lost,
            unique: 1_000 - lost,
            lost,
            loss_ratio: lost as f64 / 1e3,
            duplicates: 0,
            reordered: 0,
            delay_p50_ns: None,
            delay_p99_ns: None,
            lateness_p99_ns: None,
            doubt: None,
            repeated: 0,
        }
    }

    /// How probable it is that a device passes which loses `k` frames of an attempt with probability `losses[k]`, exactly: along every
    /// course that attempts can take.
    fn passes(attempts: &Attempts<()>, losses: &[f64]) -> f64 {
        let outcome = |lost: usize| {
            let mut attempts = attempts.clone();
            match attempts.take(trial(lost as u64), (), true) {
                true => f64::from(attempts.counts().is_some_and(|(trial, ())| trial.lost == 0)),
                false => passes(&attempts, losses),
            }
        };
        losses.iter().enumerate().map(|(lost, chance)| chance * outcome(lost)).sum()
    }

    /// Three frames are lost on average, as one in a million is of three million: one trial finds 95 % of such devices. The best of three
    /// attempts found 86 %.
    #[test]
    fn a_device_that_loses_at_random_is_found_nearly_as_often_as_by_one_trial() {
        let mut poisson = vec![(-3f64).exp()];
        for lost in 1..14 {
            poisson.push(poisson[lost - 1] * 3.0 / lost as f64);
        }
        let passes = passes(&Attempts::new(), &poisson);
        assert!((poisson[0]..0.07).contains(&passes), "{passes}");
    }

    /// The sender of one trial in ten is late, and some of what left at once is lost.
    #[test]
    fn a_device_is_seldom_charged_with_what_a_late_sender_lost() {
        for lost in [1, 2, 4, 20] {
            let mut losses = vec![0.0; lost + 1];
            (losses[0], losses[lost]) = (0.9, 0.1);
            let passes = passes(&Attempts::new(), &losses);
            assert!(passes > 0.99, "{lost}: {passes}");
        }
    }

    #[test]
    fn attempts_end_and_the_right_one_counts() {
        let course = |all: &[(TrialReport, bool)]| {
            let mut attempts = Attempts::new();
            let last = all
                .iter()
                .position(|(trial, of_burst)| attempts.take(trial.clone(), (), *of_burst));
            let (trial, ()) = attempts.counts().unwrap();
            (last, trial.lost, trial.repeated)
        };
        let (clean, burst, own) = ((trial(0), true), |lost| (trial(lost), true), (trial(5), false));
        let doubtful = |lost| {
            let doubt = Some("the card dropped frames".to_owned());
            (TrialReport { doubt, ..trial(lost) }, false)
        };
        let slow = |offered| (TrialReport { offered, ..trial(0) }, false);
        for (all, told) in [
            (vec![clean.clone()], (Some(0), 0, 0)),
            (vec![own.clone()], (Some(0), 5, 0)),
            // many lost at once, and none after that: it was the tester
            (vec![burst(20), clean.clone()], (Some(1), 0, 1)),
            // few lost at once: that none are lost once more says little
            (vec![burst(1), clean.clone(), clean.clone(), clean.clone()], (Some(3), 0, 3)),
            (vec![burst(9), burst(8), burst(7)], (Some(2), 7, 2)),
            (vec![burst(1), clean.clone(), own.clone()], (Some(2), 1, 2)),
            // what the tester knows of is made again, and counts only where nothing else does
            (vec![doubtful(3), clean.clone()], (Some(1), 0, 1)),
            (vec![doubtful(3), doubtful(2), doubtful(4)], (Some(2), 2, 2)),
            (vec![slow(990.0), clean.clone()], (Some(1), 0, 1)),
            (vec![slow(900.0)], (Some(0), 0, 0)),
        ] {
            assert_eq!(course(&all), told, "{all:?}");
        }
        let mut none = Attempts::<()>::new();
        assert_eq!([none.unsound(), none.unsound(), none.unsound()], [false, false, true]);
        assert!(none.counts().is_none());
    }
}
