//! Opening the ports of a run: receivers first, then senders, what was recorded, and the watches on their links.

use std::path::PathBuf;
use std::sync::Arc;

use wirebeat_capture::packet_log::{ClockRelation, LoggedRun};
use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine_linux::card::Wanted;
use wirebeat_engine_linux::kernel::Accepted;
use wirebeat_netlink::LinkWatch;
use wirebeat_traffic::program::Flow;
use wirebeat_traffic::scenario::TimestampsChoice;
use wirebeat_units::Nanos;

use super::{Running, SenderSeat};
use crate::engines::{self, Ability, Engine, InMemory, TransmitQueue, TxOpening};
use crate::error::RunError;
use crate::links;
use crate::placement::Seat;
use crate::ports::ResolvedPort;
use crate::queues::{self, Queues};
use crate::replay::{Opened, Recording, ReplayPolicy, Replaying, shared};
use crate::tapping::{self, Keeping, KeptRun, PortCapture, WantedFrames};
use crate::timestamps;
use crate::transmit::{self, TxWorker};

/// Waits for the links of ports whose engines use them, and says so where it took long.
pub(crate) fn await_links(
    ports: &[ResolvedPort],
    engines: &[Engine],
    timeout: Nanos,
) -> Result<Vec<String>, RunError> {
    let used = |engine: &Engine| engine.needs_link();
    let ports = ports.iter().zip(engines).filter(|(_, engine)| used(engine));
    let begun = MonotonicClock.now();
    let waits = ports.map(|(port, _)| links::await_up(port, begun, timeout));
    Ok(waits.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

impl Running<'_> {
    /// Opens receivers first, because some drivers take frames only once somebody receives them.
    pub(super) fn open(&mut self, seats: Vec<Vec<Seat>>) -> Result<(), RunError> {
        let pairs = self
            .plan
            .program
            .flows
            .iter()
            .filter_map(|flow| Some((flow.from.as_str(), flow.to.as_deref()?)))
            .filter(|(_, to)| self.lab.ports.iter().any(|port| port.name == *to));
        self.open.in_memory = InMemory::join(pairs, self.lab.options.loopback);
        let frame_max = |place: usize| {
            let flows = self.plan.program.flows_from(&self.lab.ports[place].name);
            let lengths = flows.iter().map(|&flow| self.plan.program.longest(flow).buffer());
            lengths.max().unwrap_or(0)
        };
        let mut frame_max: Vec<u16> = (0..self.lab.ports.len()).map(frame_max).collect();
        if self.lab.is_controlled() {
            for (longest, port) in frame_max.iter_mut().zip(&self.lab.ports) {
                *longest = if *longest == 0 { 0 } else { port.room().max(*longest) };
            }
            self.open.room.clone_from(&frame_max);
        }
        self.open_cards()?;
        let mut opened = self.open_recordings()?;
        self.open.keeping = self.keep()?;
        for place in 0..self.lab.ports.len() {
            self.open_receiver(place)?;
        }
        for ((place, longest), mut seats) in frame_max.into_iter().enumerate().zip(seats) {
            if longest == 0 {
                continue;
            }
            let settled =
                engines::settle(&mut self.lab.ports[place], self.open.engines[place], longest)?;
            if settled.reason.unexpected().is_some() {
                self.lab.ports[place].engine_reason = settled.reason.clone();
            }
            let engine = settled.engine;
            self.open.engines[place] = engine;
            let resting = self.lab.take_transmitters(place);
            if resting.is_empty() && !engine.can(Ability::SeeHeaders) {
                self.lab.free_addresses();
            }
            let port = &self.lab.ports[place];
            self.lab.notices.extend(settled.told(port));
            if seats.is_empty() {
                // in memory: one, wherever it is put
                seats.push(Seat::default());
            }
            let queues = Queues::of(port, engine);
            let pinned = seats.iter().filter_map(|seat| seat.cpu);
            if engine.row().transmit_queue != TransmitQueue::BySender {
                pinned.into_iter().try_for_each(|cpu| queues::check(port, queues.as_ref(), cpu))?;
            }
            let mine = self.plan.program.flows_from(&port.name);
            let recordings = opened.iter_mut().filter(|one| mine.contains(&one.flow()));
            let shared = match engine.can(Ability::ShareMemory) {
                true => shared::among(recordings),
                false => None,
            };
            let sent_taps = self.open.keeping.as_ref().and_then(|keeping| keeping.sent_taps(place));
            let opening = TxOpening {
                program: &self.plan.program,
                options: &self.lab.options,
                wait: self.plan.wait,
                unix_offset: self.lab.day.offset(),
                room: self.lab.is_controlled().then_some(longest),
                is_limited: self.lab.bounds.is_some(),
                shared: shared.as_ref(),
                sent_taps: sent_taps.as_ref(),
                in_memory: &self.open.in_memory,
            };
            let how = (&*seats, self.plan.priority);
            let senders = transmit::open((port, engine), &opening, how, resting)?;
            let seated = senders.iter().zip(seats).enumerate();
            self.open.sending.extend(seated.map(|(index, (sender, seat))| SenderSeat {
                place,
                flows: sender.flows.clone(),
                cores: sender.shard.cores,
                transmit_queue: queues::of_sender(port, engine, (index, seat.cpu), queues.as_ref()),
                seat,
                state: Arc::clone(&sender.thread.state),
                mode: sender.port.caps().mode.clone(),
            }));
            self.open.senders.extend(senders);
        }
        self.open.recordings = opened;
        // attaching a program resets many cards
        self.lab.notices.extend(await_links(
            &self.lab.ports,
            &self.open.engines,
            self.plan.link_timeout,
        )?);
        self.count_accepted();
        Ok(())
    }

    /// Opens the captures that the ports ask for.
    fn keep(&self) -> Result<Option<Keeping>, RunError> {
        Keeping::start(&self.kept(), &self.captures(), &self.logged())
    }

    fn captures(&self) -> Vec<PortCapture> {
        self.lab
            .ports
            .iter()
            .enumerate()
            .filter_map(|(place, port)| {
                let spec = port.spec.capture.as_ref()?;
                let file = self.lab.options.path(&spec.file);
                let file = if spec.overwrite { file } else { self.of_this_run(file) };
                Some(PortCapture::of(place, spec, file))
            })
            .collect()
    }

    /// What a file is called that this run writes, if it is called so in the first run of the lab.
    fn of_this_run(&self, file: PathBuf) -> PathBuf {
        tapping::of_run(file, self.lab.runs_with_files + 1)
    }

    /// What is known of the run for those who keep its frames.
    fn kept(&self) -> KeptRun<'_> {
        let flows = self.plan.program.flows.iter();
        KeptRun {
            ports: &self.lab.ports,
            engines: &self.open.engines,
            flows: flows.map(|flow| (flow.id, flow.name.clone())).collect(),
            comment: Some(format!(
                "wirebeat {}, seed {}",
                env!("CARGO_PKG_VERSION"),
                self.plan.program.seed
            )),
            has_names: true,
            is_virtual: self.lab.is_virtual(),
        }
    }

    /// What the packet log wants of the frames that each port receives, and of those that it sends; empty without one.
    fn logged(&self) -> Vec<[Option<WantedFrames>; 2]> {
        let Some(request) = &self.lab.options.packet_log else { return Vec::new() };
        let flows = &self.plan.program.flows;
        let receives =
            |port: &ResolvedPort| flows.iter().any(|flow| flow.to.as_ref() == Some(&port.name));
        let sent = request.sent || !self.lab.ports.iter().any(receives);
        let sends = |port: &ResolvedPort| sent && flows.iter().any(|flow| flow.from == port.name);
        let wanted = WantedFrames::of_log(&request.options);
        let of = |port| [receives(port), sends(port)].map(|asked| asked.then_some(wanted));
        self.lab.ports.iter().map(of).collect()
    }

    /// Makes the files of what is kept: all else is open, and how each port measures is known.
    pub(super) fn open_files(&mut self) -> Result<(), RunError> {
        let Some(mut keeping) = self.open.keeping.take() else { return Ok(()) };
        keeping.open_files(&self.kept(), &self.captures())?;
        if let Some(request) = &self.lab.options.packet_log {
            let scenario = self.plan.scenario(&self.lab.ports, &self.open.engines);
            let meter = |place| self.open.meters.get(&place).cloned();
            let logged = LoggedRun {
                wirebeat_version: env!("CARGO_PKG_VERSION").to_owned(),
                command_line: self.lab.options.command_line.clone(),
                seed: Some(self.plan.program.seed),
                scenario: scenario.and_then(|scenario| serde_json::to_string(&scenario).ok()),
                start_ns: MonotonicClock.now().get(),
                clocks: ClockRelation::Same,
                meters: (0..self.lab.ports.len()).map(meter).collect(),
            };
            let mut options = request.options.clone();
            if !options.overwrite {
                options.file = options.file.map(|file| self.of_this_run(file));
            }
            keeping.log(&self.kept(), &options, &logged)?;
        }
        keeping.go_on();
        self.lab.runs_with_files += 1;
        self.open.keeping = Some(keeping);
        Ok(())
    }

    /// Has the cards stamp what ports send and receive, if that was asked for.
    fn open_cards(&mut self) -> Result<(), RunError> {
        if self.plan.timestamps == TimestampsChoice::Software {
            return Ok(());
        }
        for (port, engine) in self.lab.ports.iter().zip(&self.open.engines) {
            let to = |flow: &&Flow| flow.to.as_ref() == Some(&port.name);
            let received: Vec<&Flow> = self.plan.program.flows.iter().filter(to).collect();
            let sent = !self.plan.program.flows_from(&port.name).is_empty();
            let wanted = Wanted { sent, received: !received.is_empty() };
            timestamps::open(port, *engine, wanted)?;
            if wanted.received {
                self.lab.notices.extend(timestamps::check(port, &self.plan.program, &received)?);
            }
        }
        Ok(())
    }

    /// Counts what drivers accept, where their own counters are not known to tell: everywhere but on virtual cables.
    fn count_accepted(&mut self) {
        let mut resting = std::mem::take(&mut self.lab.accepted).into_iter();
        let count = |(port, engine): (&ResolvedPort, &Engine)| {
            let resting = resting.next().flatten();
            let link = port.link.as_ref()?;
            let sends = !self.plan.program.flows_from(&port.name).is_empty();
            let in_doubt =
                !engine.can(Ability::ConfirmSent) && link.kind.as_deref() != Some("veth");
            if !sends || !in_doubt {
                return resting;
            }
            let open = || Accepted::open(link.index.get(), &link.name);
            resting.inspect(Accepted::restart).or_else(|| port.enter(open).ok()?.ok())
        };
        self.open.accepted = self.lab.ports.iter().zip(&self.open.engines).map(count).collect();
        for sending in &mut self.open.sending {
            if self.open.accepted.get(sending.place).is_some_and(Option::is_some) {
                sending.mode += ", counted by what the driver accepted";
            }
        }
    }

    pub(super) fn recordings(&self) -> Vec<Recording> {
        let path = |name: &str| self.lab.options.path(name);
        Recording::all(&self.plan.program, &self.plan.replays, path)
    }

    /// Opens what was recorded.
    fn open_recordings(&self) -> Result<Vec<Opened>, RunError> {
        let open = |recording: Recording| {
            let flow = self.plan.program.flows.get(recording.flow() as usize);
            let port = self
                .lab
                .ports
                .iter()
                .position(|port| flow.is_some_and(|flow| flow.from == port.name));
            match port.and_then(|place| self.open.engines.get(place)) {
                Some(engine) if !engine.can(Ability::SeeHeaders) => {
                    Opened::open(recording.without_headers())
                }
                _ => Opened::open(recording),
            }
        };
        self.recordings().into_iter().map(open).collect()
    }

    /// Begins to read what was recorded, and waits until the first of it is there.
    pub(super) fn begin_replays(&mut self) -> Result<(), RunError> {
        let controlled = self.lab.is_controlled();
        for opened in std::mem::take(&mut self.open.recordings) {
            let flow = opened.flow();
            let mine = |sender: &&mut TxWorker| sender.flows.contains(&flow);
            let mut senders: Vec<&mut TxWorker> =
                self.open.senders.iter_mut().filter(mine).collect();
            let patient = senders.iter().any(|sender| sender.is_on_virtual_time());
            let spread = senders.iter().any(|sender| sender.shard.cores > 1);
            let how = ReplayPolicy { patient, controlled, spread };
            let (replaying, playbacks) = Replaying::start(opened, senders.len(), how)?;
            for (sender, playback) in senders.iter_mut().zip(playbacks) {
                sender.playbacks.push(playback);
            }
            self.open.replaying.push(replaying);
        }
        self.open.replaying.iter().try_for_each(Replaying::await_first)
    }

    /// Watches the links that are in use. What happened to one between two runs is looked for anew.
    pub(super) fn watch(&mut self) -> Result<(), RunError> {
        let mut resting = std::mem::take(&mut self.lab.watches);
        let quiet = |watch: &mut LinkWatch| watch.events().is_ok_and(|events| events.is_empty());
        if !resting.is_empty() && resting.iter_mut().all(quiet) {
            self.open.watches = resting;
            return Ok(());
        }
        for port in &self.lab.ports {
            let Some(link) = &port.link else { continue };
            let watch = links::watch(port, link)?;
            self.open.watches.push(watch);
        }
        Ok(())
    }
}
