//! What the receiving program is told before it is loaded: the sizes of its maps, and its constants.

use std::net::IpAddr;

use libbpf_rs::OpenMapMut;
use wirebeat_engine::port::PortError;
use wirebeat_meter::filter::Filter;
use wirebeat_meter::flow::Expectation;
use wirebeat_meter::meter::{Flows, MeterConfig};
use wirebeat_meter::observation::Observed;
use wirebeat_units::fault;

use super::abi::{OBSERVE_ALL, OBSERVE_METERED};
use super::load::{entries, system};
use super::observations::{ObservationOptions, Rings};
use super::plan::Plan;
use super::receive::{Fate, ReceiveOptions};
use super::skeletons::receive::OpenReceiveSkel;
use super::skeletons::receive::types::rodata;

pub(super) fn delay_base(flows: &Flows) -> i64 {
    match flows {
        Flows::Any(_) => 0,
        Flows::Expected(flows) => {
            flows.values().next().map_or(0, |Expectation { delay_base, .. }| *delay_base)
        }
    }
}

/// Sets the maps' sizes.
pub(super) fn size(
    open: &mut OpenReceiveSkel<'_>,
    plan: &Plan,
    (lanes, cpus, bins): (usize, usize, usize),
) -> Result<(), PortError> {
    entries(&mut open.maps.lanes, plan.rows * lanes as u32)?;
    entries(&mut open.maps.flows, plan.rows)?;
    entries(&mut open.maps.window, plan.all_words() + plan.spare)?;
    entries(&mut open.maps.details, plan.details)?;
    entries(&mut open.maps.counters, cpus as u32)?;
    entries(&mut open.maps.bins, bins as u32)
}

/// Sets what is told of single frames that arrive, and the size of the rings for it.
pub(super) fn rings(
    open: &mut OpenReceiveSkel<'_>,
    observe: &ObservationOptions,
    (cpus, clock_ahead): (usize, i64),
    on: &str,
) -> Result<Rings, PortError> {
    let maps = (&mut open.maps.observers, &mut open.maps.observations);
    let rings = size_rings(maps, observe, (cpus, clock_ahead), on)?;
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.observe = match observe.frames {
            Observed::Measured => OBSERVE_METERED,
            Observed::All => OBSERVE_ALL,
        };
        (rodata.observed_bytes, rodata.observation_slots) = (observe.caught(), rings.slots);
    }
    Ok(rings)
}

/// Sets the size of the rings for what is told of single frames.
pub(super) fn size_rings(
    (observers, observations): (&mut OpenMapMut<'_>, &mut OpenMapMut<'_>),
    observe: &ObservationOptions,
    (cpus, clock_ahead): (usize, i64),
    on: &str,
) -> Result<Rings, PortError> {
    let Some(slots) = observe.slots(cpus) else {
        return Err(PortError::Unsupported {
            engine: "kernel",
            what: fault!(
                "hand on that number of observations on {cpus} CPUs: they take more than {} MiB",
                ObservationOptions::MEMORY_MAX_MIB;
                "ask for fewer at a time"
            ),
        });
    };
    let stride = observe.stride();
    entries(observers, cpus as u32)?;
    entries(observations, cpus as u32 * slots)?;
    observations
        .set_value_size(stride as u32)
        .map_err(|error| system("sizing the observations", on, error))?;
    Ok(Rings { cpus, slots, stride, clock_ahead })
}

/// The number of the first flow, where the others follow it without a gap.
pub(super) fn contiguous(flows: &Flows) -> Option<u16> {
    let Flows::Expected(flows) = flows else { return None };
    let (first, last) = (*flows.keys().next()?, *flows.keys().next_back()?);
    (usize::from(last - first) + 1 == flows.len()).then_some(first)
}

/// A filter as programs have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FilterWords {
    /// Whether there is one at all.
    pub(crate) filtered: u32,
    /// 4 or 6: that of the source address.
    pub(crate) family: u32,
    /// The source address in network order.
    pub(crate) source: [u32; 4],
    pub(crate) source_port: u16,
    pub(crate) port: u16,
}

impl From<&Filter> for FilterWords {
    fn from(filter: &Filter) -> FilterWords {
        let mut words = FilterWords {
            filtered: u32::from(*filter != Filter::default()),
            source_port: filter.source_port.unwrap_or(0),
            port: filter.destination_port.unwrap_or(0),
            ..FilterWords::default()
        };
        match filter.source.map(|source| source.to_canonical()) {
            Some(IpAddr::V4(source)) => {
                words.family = 4;
                words.source[0] = u32::from_ne_bytes(source.octets());
            }
            Some(IpAddr::V6(source)) => {
                words.family = 6;
                let bytes = source.octets();
                for (word, bytes) in words.source.iter_mut().zip(bytes.chunks_exact(4)) {
                    *word = bytes.try_into().map_or(0, u32::from_ne_bytes);
                }
            }
            None => {}
        }
        words
    }
}

/// Sets the program's constants.
pub(super) fn configure(rodata: &mut rodata, options: &ReceiveOptions, plan: &Plan) {
    let MeterConfig { flows, filter, bins, .. } = &options.meter;
    rodata.flow_count = plan.flows;
    rodata.any_flow = u32::from(matches!(flows, Flows::Any(_)));
    rodata.detail_count = plan.details;
    (rodata.spare_at, rodata.spare_words) = (plan.all_words(), plan.spare);
    rodata.count_by_lane = u32::from(plan.counts_by_lane());
    if plan.first == 0 {
        rodata.all_window_words = plan.words;
        rodata.all_window_turn = plan.words.ilog2() - 3;
    }
    if let Some(first) = contiguous(flows) {
        (rodata.contiguous, rodata.flow_base) = (1, first.into());
    }
    rodata.several_queues = u32::from(options.several_queues);
    rodata.pass = u32::from(options.fate == Fate::Pass);
    rodata.delay_base_ns = delay_base(flows);
    if let Some(bins) = bins.map(|bins| bins.empty()) {
        rodata.bin_count = bins.counts.len() as u32;
        rodata.bin_width_ns = bins.width;
    }
    let FilterWords { filtered, family, source, source_port, port } = filter.into();
    (rodata.filtered, rodata.filter_family, rodata.filter_source) = (filtered, family, source);
    (rodata.filter_source_port, rodata.filter_port) = (source_port, port);
}
