//! The scenario of a run as YAML.

use crate::model::Json;

/// The scenario as text that can be run again; `None` where it cannot be written.
pub(super) fn yaml(scenario: &Json) -> Option<String> {
    serde_saphyr::to_string(scenario).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_read_back_as_the_same_in_the_same_order() {
        let json = r##"{"seed":7,"flows":{"b: {":{"to":"=1","on":"yes","n":"1e3","k":[1,2.5,null,true,"# x"]},"a":{"t":"l\nm \u001b"}}}"##;
        let json = Json::parse(json).unwrap();
        let text = yaml(&json).unwrap();
        let read: Json = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, json, "{text}");
    }
}
