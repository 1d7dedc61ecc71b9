//! Up or down by a step, `count` values, and again from the first: `{ increment: 10.0.0.1, count: 250 }`.

use serde::Deserializer;
use serde::ser::SerializeMap;
use wirebeat_units::{Fault, fault};

use super::{Beside, FieldValue, PatternSpec};
use crate::scenario::number::Number;
use crate::values::{Shape, low_bits};

/// Where it begins, how far the next value is, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step<T> {
    from: T,
    step: Option<Number>,
    count: Option<u64>,
}

impl<T: FieldValue> Step<T> {
    fn read<'de, D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        T::deserialize(value).map(|from| Step { from, step: None, count: None })
    }

    fn write<M: SerializeMap>(&self, key: &str, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry(key, &self.from)?;
        if let Some(step) = &self.step {
            map.serialize_entry("step", step)?;
        }
        if let Some(count) = &self.count {
            map.serialize_entry("count", count)?;
        }
        Ok(())
    }

    fn beside(&mut self, beside: &mut Beside<T>) {
        self.step = beside.step.take();
        self.count = beside.count.take();
    }

    fn check(&self) -> Result<(), Fault> {
        match (self.count, self.step.map(Number::get)) {
            (Some(0), _) => Err(fault!("a count of 0 values leaves none"; "give at least 1")),
            (_, Some(0)) => Err(fault!("a step of 0 goes nowhere"; "write the value alone")),
            _ => Ok(()),
        }
    }

    fn step(&self) -> u128 {
        self.step.map_or(1, Number::get).into()
    }

    /// Without a count it goes through the whole field.
    fn shape(&self, bits: u32, step: u128) -> Shape {
        let field = low_bits(bits);
        let whole = u64::try_from(field).map_or(u64::MAX, |most| most.saturating_add(1));
        Shape::Step {
            from: self.from.to_bits(),
            step: step & field,
            count: self.count.unwrap_or(whole),
            field,
        }
    }
}

/// Makes one direction.
macro_rules! direction {
    ($(#[$doc:meta])* $type:ident, $self:ident => $step:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $type<T>(Step<T>);

        impl<T: FieldValue> $type<T> {
            /// `count` values from `from` on, one apart.
            pub fn new(from: T, count: Option<u64>) -> Self {
                $type(Step { from, step: None, count })
            }
            pub(super) fn read<'de, D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
                Step::read(value).map($type)
            }
            pub(super) fn write<M: SerializeMap>(
                &self,
                key: &str,
                map: &mut M,
            ) -> Result<(), M::Error> {
                self.0.write(key, map)
            }
        }

        impl<T: FieldValue> PatternSpec<T> for $type<T> {
            fn first(&self) -> T {
                self.0.from
            }
            fn shape(&self, bits: u32) -> Shape {
                let $self = self;
                self.0.shape(bits, $step)
            }
            fn largest(&self) -> u128 {
                self.0.from.to_bits()
            }
            fn check(&self) -> Result<(), Fault> {
                self.0.check()
            }
            fn beside(&mut self, beside: &mut Beside<T>) {
                self.0.beside(beside);
            }
        }
    };
}

direction! {
    /// Up; beyond the field's largest value it goes on at 0.
    Increment, up => up.0.step()
}
direction! {
    /// Down; below 0 it goes on at the field's largest value.
    Decrement, down => down.0.step().wrapping_neg()
}
