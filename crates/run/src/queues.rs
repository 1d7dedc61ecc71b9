//! By which transmit queue the frames of a sender leave, and which CPU sends by a queue that was asked for.
//!
//! Most engines name no queue: the system chooses it by the CPU that sends.
//! - `packet` goes past the queueing discipline, and the kernel takes the queue that its table has for the CPU (XPS), or else
//!   the CPU's number modulo the queues (packet_pick_tx_queue of `net/packet/af_packet.c`, netdev_pick_tx of
//!   `net/core/dev.c`).
//! - `kernel` redirects, and the driver chooses by the CPU's number in its own way (`ndo_xdp_xmit`).
//! - `socket` leaves it to the routes of the stack, which hash the flow unless XPS says otherwise.
//! - `xdp` binds each sender to a queue of its own, whatever its CPU.

use wirebeat_host::card::{self, Xps};
use wirebeat_report::model::{QueueChoice, TransmitQueue};
use wirebeat_units::{Fault, fault};

use crate::engines::{Engine, TransmitQueue as Chosen};
use crate::error::RunError;
use crate::ports::ResolvedPort;

/// Drivers that redirect by the CPU's number modulo their queues.
const MODULO: [&str; 4] = ["igb", "igc", "vmxnet3", "virtio_net"];
/// Drivers that redirect by the queue of the CPU's number and take nothing from CPUs beyond (ENXIO).
const ONLY_BELOW: [&str; 2] = ["i40e", "mlx5_core"];

/// How the transmit queue of an interface follows from the CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queues {
    interface: String,
    count: u32,
    rule: Rule,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    /// XPS, or the CPU's number modulo the queues.
    Table(Xps),
    /// The CPU's number modulo the queues.
    Modulo,
    /// The CPU's number, which has to be below that of queues.
    OnlyBelow,
}

impl Queues {
    /// Of a port whose senders use `engine`; `None` where it is not known.
    pub(crate) fn of(port: &ResolvedPort, engine: Engine) -> Option<Queues> {
        let link = port.link.as_ref()?;
        let interface = link.name.clone();
        match engine.row().transmit_queue {
            Chosen::ByStack => {
                let xps = port.enter(|| Xps::read(link)).ok()??;
                let count = u32::try_from(xps.queues.len()).ok()?;
                Some(Queues { interface, count, rule: Rule::Table(xps) })
            }
            Chosen::ByDriver => {
                let driver = port.enter(|| card::driver(&link.name)).ok()??;
                let rule = match driver.as_str() {
                    name if MODULO.contains(&name) => Rule::Modulo,
                    name if ONLY_BELOW.contains(&name) => Rule::OnlyBelow,
                    _ => return None,
                };
                let count = port.transmit_queues().filter(|&count| count > 0)?;
                Some(Queues { interface, count, rule })
            }
            Chosen::ByFlow | Chosen::BySender | Chosen::None => None,
        }
    }

    /// By which queues frames from `cpu` leave.
    pub(crate) fn from(&self, cpu: usize) -> TransmitQueue {
        let number = cpu as u64;
        let by_number = |queue: u64| TransmitQueue {
            queues: vec![u32::try_from(queue).unwrap_or(0)],
            by: QueueChoice::Cpu,
        };
        match &self.rule {
            _ if self.count <= 1 => TransmitQueue { queues: vec![0], by: QueueChoice::Only },
            Rule::Table(xps) => match xps.of_cpu(cpu) {
                none if none.is_empty() => by_number(number % u64::from(self.count)),
                queues => TransmitQueue { queues, by: QueueChoice::Xps },
            },
            Rule::Modulo => by_number(number % u64::from(self.count)),
            Rule::OnlyBelow => by_number(number),
        }
    }

    /// The first CPU from which the driver takes nothing, if there is one.
    pub(crate) fn cpus_below(&self) -> Option<usize> {
        (self.rule == Rule::OnlyBelow).then_some(self.count as usize)
    }

    /// A CPU for each of `wanted`, whose frames leave by that queue alone: next to the card (`near`) before others, and
    /// from the last down.
    ///
    /// # Errors
    /// There is no such queue, or no such CPU; with what would help.
    pub(crate) fn cpus_for(
        &self,
        wanted: &[u16],
        allowed: &[usize],
        near: Option<&[usize]>,
    ) -> Result<Vec<usize>, RunError> {
        let mut cpus: Vec<usize> = Vec::with_capacity(wanted.len());
        for &queue in wanted {
            let queue = u32::from(queue);
            if queue >= self.count {
                return Err(RunError::usage(self.no_such_queue(queue)));
            }
            let far = |cpu: &usize| near.is_some_and(|near| !near.contains(cpu));
            let sends_by = |cpu: &&usize| self.from(**cpu).queues == [queue];
            let found = allowed.iter().filter(sends_by);
            let cpu = found.copied().min_by_key(|cpu| (far(cpu), usize::MAX - cpu));
            cpus.push(cpu.ok_or_else(|| RunError::machine(self.no_cpu(queue, allowed)))?);
        }
        Ok(cpus)
    }

    fn no_such_queue(&self, queue: u32) -> Fault {
        let interface = &self.interface;
        let there = match self.count {
            1 => "one transmit queue, number 0".to_owned(),
            count => format!("{count} transmit queues, 0 to {}", count - 1),
        };
        fault!(
            "{interface} has no transmit queue {queue}: it has {there}";
            "choose one of these, or give it more with `ethtool -L {interface} combined {}`",
            queue + 1
        )
    }

    fn no_cpu(&self, queue: u32, allowed: &[usize]) -> Fault {
        let Queues { interface, count, .. } = self;
        match &self.rule {
            Rule::Table(xps) => {
                // one that has no queue, or shares its own
                let free = allowed.iter().rev().find(|&&cpu| xps.of_cpu(cpu).is_empty());
                let cpu = free.or(allowed.last()).copied().unwrap_or(0);
                let elsewhere = match xps.of_cpu(cpu).first() {
                    Some(other) if *other != queue => {
                        format!(", and take it out of tx-{other}/xps_cpus")
                    }
                    _ => String::new(),
                };
                fault!(
                    "no CPU that this process may use sends by transmit queue {queue} of \
                     {interface} alone (XPS)";
                    "give it CPU {cpu} with `echo {} > \
                     /sys/class/net/{interface}/queues/tx-{queue}/xps_cpus`{elsewhere}, or \
                     choose another queue",
                    mask(cpu)
                )
            }
            Rule::Modulo => {
                fault!(
                    "the driver of {interface} sends by the transmit queue that is the CPU's \
                     number modulo {count}, and this process may use no CPU that gives {queue}";
                    "choose another queue, or the engine 'packet'"
                )
            }
            Rule::OnlyBelow => {
                fault!(
                    "the driver of {interface} sends by the transmit queue of the CPU's number, \
                     and this process may not use CPU {queue}";
                    "choose another queue, or the engine 'packet'"
                )
            }
        }
    }
}

/// The transmit queue that sender number `sender` of a port has for itself, with engines whose senders do.
pub(crate) fn number_of_sender(port: &ResolvedPort, sender: usize) -> u32 {
    let named = port.spec.transmit_queues.get(sender).copied();
    named.map_or_else(|| u32::try_from(sender).unwrap_or(u32::MAX), u32::from)
}

/// By which queue the sender number `sender` of a port sends, on its CPU.
pub(crate) fn of_sender(
    port: &ResolvedPort,
    engine: Engine,
    (sender, cpu): (usize, Option<usize>),
    queues: Option<&Queues>,
) -> Option<TransmitQueue> {
    match engine.row().transmit_queue {
        Chosen::BySender => Some(TransmitQueue {
            queues: vec![number_of_sender(port, sender)],
            by: QueueChoice::Sender,
        }),
        _ => Some(queues?.from(cpu?)),
    }
}

/// The CPUs of the senders of a port that names transmit queues.
pub(crate) fn choose(
    port: &ResolvedPort,
    engine: Engine,
    (allowed, near): (&[usize], Option<&[usize]>),
) -> Result<Vec<usize>, RunError> {
    let Some(queues) = Queues::of(port, engine) else {
        let why = match engine.row().transmit_queue {
            Chosen::ByFlow => "the system chooses the queue of sockets by the flow".to_owned(),
            _ => format!(
                "it is not known how the transmit queue of {} follows from the CPU with the engine '{engine}'",
                port.interface(),
            ),
        };
        return Err(RunError::usage(fault!(
            "port '{}' cannot keep to 'transmit-queues': {why}", port.name;
            "use the engine 'packet', or name CPUs with 'cores'"
        )));
    };
    queues.cpus_for(&port.spec.transmit_queues, allowed, near)
}

/// That a sender on `cpu` can send at all, and by the queues that the port names, if it does.
///
/// # Errors
/// Not, with what would help.
pub(crate) fn check(
    port: &ResolvedPort,
    queues: Option<&Queues>,
    cpu: usize,
) -> Result<(), RunError> {
    let interface = port.interface();
    if let Some(below) = queues.and_then(Queues::cpus_below).filter(|&below| cpu >= below) {
        return Err(RunError::machine(fault!(
            "the driver of {interface} takes redirected frames from CPU 0 to {} only, one \
             for each of its queues, and port '{}' sends from CPU {cpu}",
            below.saturating_sub(1), port.name;
            "name CPUs below {below}, give it more queues with `ethtool -L {interface} \
             combined {}`, or use the engine 'packet'",
            cpu + 1
        )));
    }
    let wanted = &port.spec.transmit_queues;
    let leaves_by = queues.map(|queues| queues.from(cpu).queues);
    let fits = match leaves_by.as_deref() {
        Some([queue]) => wanted.iter().any(|&one| u32::from(one) == *queue),
        _ => false,
    };
    match wanted.is_empty() || fits {
        true => Ok(()),
        // what was left to us has changed since
        false => Err(RunError::machine(fault!(
            "port '{}' cannot keep to 'transmit-queues' with the engine that 'auto' has \
             fallen back to",
            port.name;
            "name the engine"
        ))),
    }
}

/// The mask of one CPU as sysfs reads it: groups of 32 bits in hexadecimal, the highest first.
fn mask(cpu: usize) -> String {
    let mut text = format!("{:x}", 1_u32 << (cpu % 32));
    for _ in 0..cpu / 32 {
        text += ",00000000";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(count: u32, rule: Rule) -> Queues {
        Queues { interface: "eth1".to_owned(), count, rule }
    }

    fn table(queues_of: &[&[usize]]) -> Queues {
        let xps = Xps { queues: queues_of.iter().map(|cpus| cpus.to_vec()).collect() };
        queues(queues_of.len() as u32, Rule::Table(xps))
    }

    fn one(queue: u32, by: QueueChoice) -> TransmitQueue {
        TransmitQueue { queues: vec![queue], by }
    }

    #[test]
    fn the_stack_sends_by_the_queue_of_its_table_or_the_cpus_number() {
        let two = table(&[&[0, 3], &[1]]);
        assert_eq!(two.from(3), one(0, QueueChoice::Xps));
        assert_eq!(two.from(1), one(1, QueueChoice::Xps));
        // CPU 5 is in no mask
        assert_eq!(two.from(5), one(1, QueueChoice::Cpu));
        let both = table(&[&[0], &[0]]);
        assert_eq!(both.from(0), TransmitQueue { queues: vec![0, 1], by: QueueChoice::Xps });
        assert_eq!(table(&[&[]]).from(7), one(0, QueueChoice::Only));
    }

    #[test]
    fn drivers_send_redirected_frames_by_the_cpus_number() {
        let modulo = queues(4, Rule::Modulo);
        assert_eq!(modulo.from(6), one(2, QueueChoice::Cpu));
        assert_eq!(modulo.cpus_below(), None);
        assert_eq!(queues(4, Rule::OnlyBelow).cpus_below(), Some(4));
    }

    #[test]
    fn a_queue_that_was_asked_for_gets_a_cpu_that_sends_by_it() {
        let four = table(&[&[0, 4], &[1, 5], &[2, 6], &[3, 7]]);
        let all = [0, 1, 2, 3, 4, 5, 6, 7];
        assert_eq!(four.cpus_for(&[1, 3], &all, None).unwrap(), [5, 7]);
        assert_eq!(four.cpus_for(&[1, 3], &all, Some(&[0, 1, 2, 3])).unwrap(), [1, 3]);
        assert_eq!(queues(2, Rule::Modulo).cpus_for(&[0], &[1, 2, 3], None).unwrap(), [2]);
    }

    #[test]
    fn a_queue_without_a_cpu_is_refused_with_the_command() {
        let said = |queues: &Queues, wanted: u16, allowed: &[usize]| {
            queues.cpus_for(&[wanted], allowed, None).unwrap_err().to_string()
        };
        let two = table(&[&[0], &[1]]);
        assert_eq!(
            said(&two, 1, &[0, 34]),
            "no CPU that this process may use sends by transmit queue 1 of eth1 alone (XPS); give it CPU 34 with `echo \
             4,00000000 > /sys/class/net/eth1/queues/tx-1/xps_cpus`, or choose another queue"
        );
        let all_to_one = table(&[&[0, 1], &[]]);
        assert_eq!(
            said(&all_to_one, 1, &[0, 1]),
            "no CPU that this process may use sends by transmit queue 1 of eth1 alone (XPS); give it CPU 1 with `echo 2 > \
             /sys/class/net/eth1/queues/tx-1/xps_cpus`, and take it out of tx-0/xps_cpus, or choose another queue"
        );
        assert!(
            said(&two, 2, &[0])
                .contains("has no transmit queue 2: it has 2 transmit queues, 0 to 1")
        );
        assert!(said(&queues(2, Rule::Modulo), 1, &[0, 2]).contains("modulo 2"));
    }

    #[test]
    fn masks_have_a_group_for_each_32_cpus() {
        assert_eq!(
            [mask(0), mask(5), mask(31), mask(32), mask(65)],
            [
                "1".to_owned(),
                "20".to_owned(),
                "80000000".to_owned(),
                "1,00000000".to_owned(),
                "2,00000000,00000000".to_owned()
            ]
        );
    }
}
