//! A distribution within bounds, as times and sizes are written: `normal: { … }` with `min` and `max` beside it.

use serde::ser::SerializeMap;
use wirebeat_units::{Fault, fault};

use super::{Bounds, Distribution, LawError, Quantity, Sampler};

/// A distribution, and between which values its samples lie: one outside is drawn again.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounded<Q> {
    /// From what is drawn.
    pub distribution: Distribution<Q>,
    /// No sample is smaller; what holds without it is for the user to say.
    pub min: Option<Q>,
    /// No sample is larger; what holds without it is for the user to say.
    pub max: Option<Q>,
}

impl<Q> From<Distribution<Q>> for Bounded<Q> {
    fn from(distribution: Distribution<Q>) -> Self {
        Bounded { distribution, min: None, max: None }
    }
}

impl<Q: Quantity> Bounded<Q> {
    /// What is invalid.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if let (Some(min), Some(max)) = (self.min, self.max)
            && min.to_f64() > max.to_f64()
        {
            return Err(fault!("'min' is {min} and 'max' is {max}"; "exchange them"));
        }
        self.distribution.check().map_err(|(key, why)| why.at(key))
    }

    /// What draws from it; see [`Distribution::sampler`].
    pub fn sampler(&self, mean: Option<f64>) -> Result<Sampler, LawError> {
        let bounds = Bounds { min: self.min.map(Q::to_f64), max: self.max.map(Q::to_f64) };
        self.distribution.sampler(mean, bounds)
    }

    /// Writes it into a map that may hold more.
    pub(crate) fn write_entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.distribution.write_entry(map)?;
        self.min.iter().try_for_each(|min| map.serialize_entry("min", min))?;
        self.max.iter().try_for_each(|max| map.serialize_entry("max", max))
    }
}
