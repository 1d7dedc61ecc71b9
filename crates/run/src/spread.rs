//! Which transmit core of a port sends what: a flow stays on one, so that its frames leave in their order.
//!
//! Frames of one flow that leave by several cores overtake each other, and a receiver counts them as reordered. So it
//! takes a choice: several CPUs that are named for one flow. What is sent as fast as possible is spread where there are
//! more cores than flows, because that is what the cores are for. The report says of each flow over how many it is
//! spread. Devices of a replay are flows of their own here: each stays on one core.

use wirebeat_traffic::program::Program;
use wirebeat_traffic::schedule::Shard;

/// What a core sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// The flows, by their index in the program.
    pub(crate) flows: Vec<u32>,
    /// Which part of each.
    pub(crate) shard: Shard,
}

/// Divides the flows of a port among at most `cores` transmit cores, and gives back only those that have something to
/// send. `named`: whether the user named their CPUs.
pub(crate) fn shares(
    program: &Program,
    flows: &[u32],
    (cores, named): (usize, bool),
) -> Vec<Share> {
    let whole = |flows| Share { flows, shard: Shard::WHOLE };
    let divided = divided(program, flows);
    let alone = flows.len() == 1 && !divided;
    let flat_out = flows.iter().any(|&flow| program.is_unlimited(flow));
    let chosen = match flat_out {
        // They take turns: shares of unequal size would make them unequally fast.
        true => !divided && !flows.len().is_multiple_of(cores.max(1)),
        false => alone && named,
    };
    if cores <= 1 {
        return vec![whole(flows.to_vec())];
    }
    if chosen {
        let cores = cores as u32;
        let share = |core| Share { flows: flows.to_vec(), shard: Shard { core, cores } };
        return (0..cores).map(share).collect();
    }
    let mut load: Vec<(f64, Vec<u32>)> = vec![(0.0, Vec::new()); cores];
    let (parted, mut rest): (Vec<u32>, Vec<u32>) =
        flows.iter().partition(|&&flow| is_divided(program, flow));
    let rate = |flow: u32| program.offered(flow).map_or(0.0, |(rate, _)| rate.per_second());
    // the fastest first, each to the core that has least to do
    rest.sort_by(|&a, &b| rate(b).total_cmp(&rate(a)));
    for flow in rest {
        let least = load
            .iter_mut()
            .min_by(|(a, of_a), (b, of_b)| a.total_cmp(b).then(of_a.len().cmp(&of_b.len())));
        if let Some((load, flows)) = least {
            *load += rate(flow);
            flows.push(flow);
        }
    }
    let flows = load.into_iter().map(|(_, mut flows)| {
        flows.extend(&parted);
        flows.sort_unstable();
        flows
    });
    flows.filter(|flows| !flows.is_empty()).map(whole).collect()
}

/// Whether a flow is divided among cores by itself: a replay whose devices stay on one each, or of which some cores send
/// what leaves later.
fn is_divided(program: &Program, flow: u32) -> bool {
    let Some(flow) = program.flows.get(flow as usize) else { return false };
    !flow.members.is_empty() || flow.delayed_cores > 0
}

fn divided(program: &Program, flows: &[u32]) -> bool {
    flows.iter().any(|&flow| is_divided(program, flow))
}

#[cfg(test)]
mod tests {
    use wirebeat_traffic::compile::{Link, Links, compile};
    use wirebeat_traffic::scenario::Scenario;

    use super::*;

    /// What each core sends of flows with these rates.
    fn flows_of(rates: &[&str], cores: (usize, bool)) -> Vec<Share> {
        let flow = |(n, rate): (usize, &&str)| {
            format!("  f{n}: {{ from: a, to: a, rate: {rate}, stop: 1s }}\n")
        };
        let flows: String = rates.iter().enumerate().map(flow).collect();
        let scenario =
            Scenario::from_yaml(&format!("ports: {{ a: {{}} }}\nflows:\n{flows}"), "test").unwrap();
        let links = Links { ports: [("a".to_owned(), Link::imaginary(0))].into() };
        let program = compile(&scenario, &links, &Default::default()).unwrap();
        shares(&program, &program.flows_from("a"), cores)
    }

    fn whole(flows: &[&[u32]]) -> Vec<Share> {
        flows.iter().map(|f| Share { flows: f.to_vec(), shard: Shard::WHOLE }).collect()
    }

    #[test]
    fn a_flow_with_a_rate_stays_on_one_core_unless_cpus_are_named_for_it() {
        assert_eq!(flows_of(&["1kpps"], (4, false)), whole(&[&[0]]));
        let spread = flows_of(&["1kpps"], (2, true));
        assert_eq!(spread.iter().map(|s| s.shard.core).collect::<Vec<_>>(), [0, 1]);
        assert!(spread.iter().all(|share| share.flows == [0] && share.shard.cores == 2));
    }

    #[test]
    fn several_flows_are_divided_by_their_rates() {
        let rates = ["10kpps", "30kpps", "15kpps", "1kpps"];
        assert_eq!(flows_of(&rates, (2, true)), whole(&[&[1], &[0, 2, 3]]));
        assert_eq!(flows_of(&rates, (2, false)), whole(&[&[1], &[0, 2, 3]]));
        assert_eq!(flows_of(&rates, (1, false)), whole(&[&[0, 1, 2, 3]]));
        assert_eq!(flows_of(&rates, (7, false)).len(), 4);
    }

    #[test]
    fn what_is_sent_flat_out_uses_all_cores() {
        let spread = flows_of(&["unlimited"], (2, false));
        assert_eq!(spread.iter().map(|share| share.shard.cores).collect::<Vec<_>>(), [2, 2]);
        assert_eq!(flows_of(&["unlimited", "unlimited"], (2, false)), whole(&[&[0], &[1]]));
        assert_eq!(flows_of(&["unlimited"; 3], (2, false))[0].shard.cores, 2);
    }
}
