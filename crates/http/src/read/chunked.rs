//! The framing of chunks (RFC 9112 §7.1), byte by byte: sizes, extensions, trailer fields. Their data is `body`'s.
//!
//! Sizes are hexadecimal digits up to 64 bits; extensions and trailer fields are checked and dropped (§7.1.1, §7.1.2). A server
//! wants the letter. A client lets spaces behind a size pass, which old servers pad with, and folded trailer fields.

use super::Side;
use super::body::{Body, Expected};
use super::head::{is_field_value, is_token};
use crate::{Bad, CHUNK_LINE_MAX, HEAD_MAX};

/// What is expected next within chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The first digit of a size.
    Size,
    /// Digits, or what ends them.
    Digits,
    /// Spaces behind the digits.
    Space,
    Extension,
    /// LF of a size line.
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// A line of the trailer section, or its end.
    FirstTrailer,
    Trailer,
    TrailerName,
    TrailerValue,
    /// LF of a trailer field.
    TrailerLf,
    /// LF of the message's last line.
    LastLf,
}

impl Body {
    /// What is expected behind `byte`, which is not data.
    pub(super) fn chunk_framing(
        &mut self,
        step: Step,
        byte: u8,
        side: Side,
    ) -> Result<Expected, Bad> {
        let next = match (step, byte) {
            (Step::Size, _) => {
                self.remaining = 0;
                self.line_len = 0;
                self.digit(byte)?;
                Step::Digits
            }
            (Step::Digits | Step::Space | Step::Extension, b'\r') => {
                if step == Step::Space && side == Side::Server {
                    return Err(Bad::ChunkSize);
                }
                Step::SizeLf
            }
            (Step::Digits | Step::Space, b';') => self.in_line(Step::Extension)?,
            (Step::Digits | Step::Space, b' ' | b'\t') => self.in_line(Step::Space)?,
            (Step::Digits, _) => {
                self.digit(byte)?;
                self.in_line(Step::Digits)?
            }
            (Step::Space, _) => return Err(Bad::ChunkSize),
            (Step::Extension, _) if is_field_value(byte) => self.in_line(Step::Extension)?,
            (Step::Extension, _) => return Err(Bad::ChunkExtension),
            (Step::SizeLf, b'\n') if self.remaining == 0 => {
                self.line_len = 0;
                Step::FirstTrailer
            }
            (Step::SizeLf, b'\n') => Step::Data,
            (Step::SizeLf, _) => return Err(Bad::ChunkSize),
            (Step::DataCr, b'\r') => Step::DataLf,
            (Step::DataLf, b'\n') => Step::Size,
            // Data never comes here.
            (Step::Data | Step::DataCr | Step::DataLf, _) => return Err(Bad::ChunkEnd),
            (Step::LastLf, b'\n') => return Ok(Expected::End),
            _ => self.trailer(step, byte, side)?,
        };
        Ok(Expected::Chunked(next))
    }

    fn digit(&mut self, byte: u8) -> Result<(), Bad> {
        let digit = char::from(byte).to_digit(16).ok_or(Bad::ChunkSize)?;
        let shifted = self.remaining.checked_mul(16).ok_or(Bad::ChunkSize)?;
        self.remaining = shifted | u64::from(digit);
        Ok(())
    }

    /// Counts a byte of a size line.
    fn in_line(&mut self, next: Step) -> Result<Step, Bad> {
        self.line_len += 1;
        // The first digit is not counted.
        if self.line_len as usize >= CHUNK_LINE_MAX { Err(Bad::ChunkLineTooLong) } else { Ok(next) }
    }

    fn trailer(&mut self, step: Step, byte: u8, side: Side) -> Result<Step, Bad> {
        self.line_len += 1;
        // The last LF is not counted.
        if self.line_len as usize >= HEAD_MAX {
            return Err(Bad::TrailerTooLong);
        }
        match (step, byte) {
            (Step::FirstTrailer | Step::Trailer, b'\r') => Ok(Step::LastLf),
            (Step::FirstTrailer | Step::Trailer, _) if is_token(byte) => Ok(Step::TrailerName),
            (Step::Trailer, b' ' | b'\t') if side == Side::Client => Ok(Step::TrailerValue),
            (Step::TrailerName, b':') => Ok(Step::TrailerValue),
            (Step::TrailerName, _) if is_token(byte) => Ok(Step::TrailerName),
            (Step::TrailerValue, b'\r') => Ok(Step::TrailerLf),
            (Step::TrailerValue | Step::TrailerLf, b'\n') => Ok(Step::Trailer),
            (Step::TrailerValue, _) if is_field_value(byte) => Ok(Step::TrailerValue),
            _ => Err(Bad::Trailer),
        }
    }
}
