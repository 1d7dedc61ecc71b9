//! pktgen's files: who may be written what, and which devices there are.

use indexmap::IndexMap;
use wirebeat_traffic::scenario::MAX_FLOWS;
use wirebeat_units::fault;

use super::device::Device;
use crate::draft::Draft;
use crate::text::printable;
use crate::{Line, ScriptError};

/// pktgen as the script leaves it.
#[derive(Default)]
pub(super) struct Control {
    pub devices: IndexMap<String, Device>,
    started: bool,
}

impl Control {
    /// Writes a command to one of pktgen's files.
    pub fn write(
        &mut self,
        draft: &mut Draft<'_>,
        line: &Line,
        file: &str,
        command: &str,
    ) -> Result<(), ScriptError> {
        let (name, value) =
            command.trim().split_once(char::is_whitespace).unwrap_or((command.trim(), ""));
        // The kernel takes `count = 5` as well.
        let value = value.trim_start_matches(|c: char| c.is_whitespace() || c == '=').trim_end();
        if self.started {
            if name != "stop" {
                let why = "the script has started pktgen before; a scenario is one run";
                draft.leave_out(line, command, why);
            }
            return Ok(());
        }
        if file == "pgctrl" {
            return self.control(line, name);
        }
        if let Some(thread) = file.strip_prefix("kpktgend_") {
            return self.thread(draft, line, thread, (name, value));
        }
        match self.devices.get_mut(file) {
            Some(device) => device.set(draft, line, name, value),
            None => Err(line.wrong(fault!(
                "there is no device '{}' yet", printable(file);
                "add it to a thread before: add_device {}", printable(file)
            ))),
        }
    }

    fn control(&mut self, line: &Line, name: &str) -> Result<(), ScriptError> {
        match name {
            "start" => self.started = true,
            "stop" => {}
            "reset" => self.devices.clear(),
            _ => {
                let why = format!("pgctrl knows start, stop and reset, not '{}'", printable(name));
                return Err(line.wrong(why));
            }
        }
        Ok(())
    }

    fn thread(
        &mut self,
        draft: &mut Draft<'_>,
        line: &Line,
        thread: &str,
        (name, value): (&str, &str),
    ) -> Result<(), ScriptError> {
        let cpu: u16 = thread.parse().map_err(|_| {
            line.wrong(format!("'kpktgend_{}' is not a thread of pktgen", printable(thread)))
        })?;
        match name {
            "add_device"
                if value.is_empty()
                    || value.starts_with('@')
                    || value.contains(char::is_whitespace) =>
            {
                Err(line.wrong("add_device has the name of a device: add_device eth0"))
            }
            "add_device" => {
                if self.devices.contains_key(value) {
                    return Err(line.wrong(fault!(
                        "'{}' is on a thread already", printable(value);
                        "add it as {}@{cpu}", printable(value)
                    )));
                }
                if self.devices.len() >= MAX_FLOWS {
                    let why =
                        fault!("there are more than {MAX_FLOWS} devices"; "divide the script");
                    return Err(line.wrong(why));
                }
                self.devices.insert(value.to_owned(), Device::new(line, cpu));
                Ok(())
            }
            "rem_device_all" => {
                self.devices.retain(|_, device| device.cpu != cpu);
                Ok(())
            }
            "max_before_softirq" => {
                draft.leave_out(line, name, "the kernel takes it and does nothing with it");
                Ok(())
            }
            _ => Err(line.wrong(format!(
                "a thread knows add_device, rem_device_all and max_before_softirq, not '{}'",
                printable(name)
            ))),
        }
    }
}
