//! Who runs on which CPU: the transmit cores of all ports of a run together, and what receives and helps beside them.
//!
//! CPUs that a port names are its own choice. All others are given out one to each sender, the first senders of all ports
//! before any second one, so that no two share a CPU while another is free; next to the port's card where the machine has
//! several nodes of memory. The decision is a function of plain numbers; only [`Cpus::here`] asks the machine.

use std::collections::BTreeMap;

use wirebeat_engine_linux::affinity;
use wirebeat_host::{Cpu, CpuList, near_cpus};
use wirebeat_units::fault;

use crate::engines::Engine;
use crate::error::RunError;
use crate::ports::ResolvedPort;

/// The CPUs of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cpus {
    /// Those that are switched on.
    pub(crate) online: Vec<usize>,
    /// Those that this process may use, in order.
    pub(crate) allowed: Vec<usize>,
}

impl Cpus {
    /// As the system says.
    pub(crate) fn here() -> Cpus {
        let allowed = affinity::allowed();
        let online = Cpu::online().map_or_else(|| allowed.clone(), |online| numbers(&online));
        Cpus { online, allowed }
    }

    /// That a port can have the CPUs that it names. An error says which there are.
    pub(crate) fn check(&self, whose: &str, cores: &[u16]) -> Result<(), RunError> {
        let Some(&core) = cores.iter().find(|&&core| !self.allowed.contains(&usize::from(core)))
        else {
            return Ok(());
        };
        Err(RunError::usage(match self.online.contains(&usize::from(core)) {
            false => {
                fault!(
                    "{whose} names CPU {core}, which this machine does not have";
                    "choose among CPU {}", written(&self.allowed)
                )
            }
            true => {
                fault!(
                    "{whose} names CPU {core}, which this process may not use (affinity or cpuset)";
                    "choose among CPU {}, or start it with more, for example with taskset",
                    written(&self.allowed)
                )
            }
        }))
    }
}

fn numbers(list: &CpuList) -> Vec<usize> {
    list.cpus().iter().map(|&cpu| cpu as usize).collect()
}

/// As the kernel writes it: "0-3,8".
fn written(cpus: &[usize]) -> String {
    let text = cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    CpuList::parse(&text).map_or(text, |list| list.to_string())
}

/// What a port needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demand {
    /// Its name.
    pub(crate) name: String,
    /// How many threads send; 0 where nothing leaves, or in memory.
    pub(crate) senders: usize,
    /// The CPUs that it names.
    pub(crate) named: Vec<usize>,
    /// The CPUs next to its card, where that is known.
    pub(crate) near: Option<Vec<usize>>,
    /// The first CPU that its driver takes no frames from, if there is one.
    pub(crate) below: Option<usize>,
}

impl Demand {
    /// Of a port of a run that so many threads send from; in memory it takes no CPU.
    pub(crate) fn of(port: &ResolvedPort, engine: Engine, senders: usize) -> Demand {
        Demand {
            name: port.name.clone(),
            senders: if engine.is_virtual() { 0 } else { senders },
            named: port.spec.cores.iter().map(|&core| usize::from(core)).collect(),
            near: near(port),
            below: None,
        }
    }
}

/// The CPUs next to a port's card.
pub(crate) fn near(port: &ResolvedPort) -> Option<Vec<usize>> {
    near_cpus(port.link.as_ref()?).map(|list| numbers(&list))
}

/// Where a sender runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seat {
    /// Its CPU; none in memory, or where the system does not say which there are.
    pub(crate) cpu: Option<usize>,
    /// The CPUs that it may use as well if others keep its own from it: none where the port named it.
    pub(crate) spare: Vec<usize>,
}

/// Where all of a run's threads run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The senders of each port.
    pub(crate) senders: Vec<Vec<Seat>>,
    /// What a reader of the report has to know.
    pub(crate) findings: Vec<String>,
}

impl Placement {
    /// The CPUs that send.
    pub(crate) fn cpus(&self) -> impl Iterator<Item = usize> {
        self.senders.iter().flatten().filter_map(|seat| seat.cpu)
    }

    /// A CPU on which several senders run.
    pub(crate) fn shared(&self) -> Option<(usize, usize)> {
        let mut on: BTreeMap<usize, usize> = BTreeMap::new();
        self.cpus().for_each(|cpu| *on.entry(cpu).or_default() += 1);
        on.into_iter().find(|(_, senders)| *senders > 1)
    }
}

/// Gives every sender a CPU.
pub(crate) fn place(demands: &[Demand], allowed: &[usize]) -> Placement {
    let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
    let mut senders: Vec<Vec<Seat>> = demands
        .iter()
        .map(|demand| {
            let named = demand.named.iter().cycle().take(demand.senders);
            named.map(|&cpu| Seat { cpu: Some(cpu), spare: Vec::new() }).collect()
        })
        .collect();
    let named = senders.iter().flatten().filter_map(|seat| seat.cpu);
    named.for_each(|cpu| *taken.entry(cpu).or_default() += 1);
    let most = demands.iter().map(|demand| demand.senders).max().unwrap_or(0);
    for turn in 0..most {
        for (demand, seats) in demands.iter().zip(&mut senders) {
            if demand.named.is_empty() && turn < demand.senders {
                let cpu = choose(demand, allowed, &taken);
                cpu.into_iter().for_each(|cpu| *taken.entry(cpu).or_default() += 1);
                seats.push(Seat { cpu, spare: Vec::new() });
            }
        }
    }
    for (demand, seats) in demands.iter().zip(&mut senders) {
        if demand.named.is_empty() {
            for seat in seats.iter_mut() {
                let serves = |cpu: &usize| demand.below.is_none_or(|below| *cpu < below);
                let spare = allowed.iter().copied().filter(|cpu| !taken.contains_key(cpu));
                seat.spare = spare.filter(serves).collect();
            }
        }
    }
    let findings = crowded(demands, &senders).into_iter().collect();
    Placement { senders, findings }
}

/// The CPU with the fewest senders, of those that the driver serves: next to the card before all others, and from the last
/// down, because the first often serves interrupts.
fn choose(demand: &Demand, allowed: &[usize], taken: &BTreeMap<usize, usize>) -> Option<usize> {
    let far = |cpu: &usize| demand.near.as_ref().is_some_and(|near| !near.contains(cpu));
    let unserved = |cpu: &usize| demand.below.is_some_and(|below| *cpu >= below);
    let senders = |cpu: &usize| taken.get(cpu).copied().unwrap_or(0);
    let cost = |cpu: &usize| (unserved(cpu), senders(cpu), far(cpu), usize::MAX - cpu);
    allowed.iter().copied().min_by_key(cost)
}

/// That there are fewer CPUs than senders.
fn crowded(demands: &[Demand], senders: &[Vec<Seat>]) -> Option<String> {
    let mut on: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for (demand, seats) in demands.iter().zip(senders) {
        for cpu in seats.iter().filter_map(|seat| seat.cpu) {
            on.entry(cpu).or_default().push(&demand.name);
        }
    }
    let all: usize = on.values().map(Vec::len).sum();
    if all <= on.len() {
        return None;
    }
    let share = |(cpu, ports): (&usize, &Vec<&str>)| format!("CPU {cpu}: {}", ports.join(", "));
    let shares = on.iter().filter(|(_, ports)| ports.len() > 1).map(share);
    Some(format!(
        "{all} sending threads share {} (port of each, {}); frames wait for each other there; use fewer 'queues', \
         or name other 'cores'",
        match on.len() {
            1 => "one CPU".to_owned(),
            cpus => format!("{cpus} CPUs"),
        },
        shares.collect::<Vec<_>>().join("; "),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(name: &str, senders: usize) -> Demand {
        Demand { name: name.to_owned(), senders, ..Demand::default() }
    }

    fn cpus(placement: &Placement) -> Vec<Vec<usize>> {
        let of = |seats: &Vec<Seat>| seats.iter().filter_map(|seat| seat.cpu).collect();
        placement.senders.iter().map(of).collect()
    }

    #[test]
    fn the_first_senders_of_two_ports_do_not_share_a_cpu() {
        let both = [demand("a", 1), demand("b", 1)];
        assert_eq!(cpus(&place(&both, &[0, 1])), [[1], [0]]);
        assert_eq!(cpus(&place(&both, &[0, 1, 2, 3])), [[3], [2]]);
        let more = [demand("a", 2), demand("b", 2), demand("c", 0)];
        assert_eq!(cpus(&place(&more, &[0, 1, 2, 3])), vec![vec![3, 1], vec![2, 0], vec![]]);
        assert!(place(&more, &[0, 1, 2, 3]).findings.is_empty());
    }

    #[test]
    fn fewer_cpus_than_senders_are_shared_evenly_and_said() {
        let three = place(&[demand("a", 2), demand("b", 1)], &[0, 1]);
        assert_eq!(cpus(&three), vec![vec![1, 1], vec![0]]);
        assert_eq!(three.shared(), Some((1, 2)));
        assert_eq!(
            three.findings,
            [
                "3 sending threads share 2 CPUs (port of each, CPU 1: a, a); frames wait for each other there; use \
              fewer 'queues', or name other 'cores'"
            ]
        );
        let four = place(&[demand("a", 2), demand("b", 2)], &[0, 1]);
        assert_eq!(cpus(&four), [[1, 1], [0, 0]]);
        let one = place(&[demand("a", 1), demand("b", 1)], &[5]);
        assert_eq!(cpus(&one), [[5], [5]]);
        assert!(one.findings[0].contains("share one CPU"), "{:?}", one.findings);
    }

    #[test]
    fn cpus_that_a_port_names_are_its_own() {
        let named = Demand { named: vec![1], ..demand("b", 1) };
        let placed = place(&[demand("a", 1), named], &[0, 1]);
        assert_eq!(cpus(&placed), [[0], [1]], "although b comes later");
        assert_eq!(placed.senders[1][0].spare, [0; 0]);
    }

    #[test]
    fn senders_are_next_to_their_card_while_there_is_room() {
        let near =
            |name: &str, near: &[usize]| Demand { near: Some(near.to_vec()), ..demand(name, 2) };
        let all = [0, 1, 2, 3, 4, 5, 6, 7];
        let apart = place(&[near("a", &[0, 1, 2, 3]), near("b", &[4, 5, 6, 7])], &all);
        assert_eq!(cpus(&apart), [[3, 2], [7, 6]]);
        let same = place(&[near("a", &[0, 1]), near("b", &[0, 1])], &all);
        assert_eq!(cpus(&same), [[1, 7], [0, 6]], "a CPU far away is better than a shared one");
    }

    #[test]
    fn a_driver_that_serves_the_first_cpus_alone_gets_senders_there() {
        let below = |name: &str, senders| Demand { below: Some(2), ..demand(name, senders) };
        let placed = place(&[below("a", 2), demand("b", 1)], &[0, 1, 2, 3]);
        assert_eq!(cpus(&placed), [vec![1, 0], vec![3]]);
        assert_eq!(placed.senders[0][0].spare, [0; 0]);
        assert_eq!(cpus(&place(&[below("a", 3)], &[0, 1, 2, 3])), [[1, 0, 1]]);
    }

    #[test]
    fn a_sender_has_the_cpus_to_spare_that_nobody_sends_on() {
        let placed = place(&[demand("a", 1), demand("b", 1)], &[0, 1, 2, 3]);
        assert_eq!(placed.senders[0][0].spare, [0, 1]);
        assert_eq!(place(&[demand("a", 1)], &[0, 1]).senders[0][0].spare, [0]);
    }

    #[test]
    fn without_cpus_that_are_known_threads_go_anywhere() {
        assert_eq!(place(&[demand("a", 1)], &[]).senders, [[Seat::default()]]);
    }

    #[test]
    fn cpus_that_do_not_exist_or_are_not_allowed_are_told_apart() {
        let cpus = Cpus { online: vec![0, 1, 2, 3], allowed: vec![0, 1] };
        assert!(cpus.check("port 'a'", &[1, 0]).is_ok());
        let why = |cores: &[u16]| cpus.check("port 'a'", cores).unwrap_err();
        assert_eq!(
            why(&[0, 99]).to_string(),
            "port 'a' names CPU 99, which this machine does not have; choose among CPU 0-1"
        );
        assert!(
            why(&[3])
                .to_string()
                .contains("may not use (affinity or cpuset); choose among CPU 0-1")
        );
        assert_eq!(why(&[99]).exit_code(), 2);
    }
}
