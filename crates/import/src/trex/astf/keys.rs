//! What a profile says that no other part reads: each key that is not carried over is told, with the reason.

use serde_json::{Map, Value};
use wirebeat_traffic::scenario::KeyPath;

use super::Reader;
use super::tunables::End;

/// Keys of a map: those that others read, and those that are told with a reason.
struct Keys {
    read: &'static [&'static str],
    told: &'static [(&'static str, &'static str)],
}

const PROFILE: Keys = Keys {
    read: &[
        "buf_list",
        "program_list",
        "ip_gen_dist_list",
        "templates",
        "tg_names",
        "c_glob_info",
        "s_glob_info",
    ],
    told: &[],
};
const TEMPLATE: Keys = Keys { read: &["client_template", "server_template", "tg_id"], told: &[] };
const CLIENT: Keys = Keys {
    read: &[
        "program_index",
        "port",
        "cps",
        "ip_gen",
        "limit",
        "cont",
        "glob_info",
        "name",
        "tg_name",
    ],
    told: &[
        ("cluster", "write the addresses as 'clients'"),
        ("core_base", "sessions are divided among the 'cores' of the port"),
    ],
};
const SERVER: Keys = Keys {
    read: &["program_index", "assoc", "glob_info"],
    told: &[(
        "s_delay",
        "servers wait where their steps say 'think': write it before what they send",
    )],
};
const GENERATOR: Keys = Keys { read: &["dist_client", "dist_server"], told: &[] };
const ADDRESSES: Keys = Keys {
    read: &[
        "ip_start",
        "ip_end",
        "distribution",
        "dir",
        "per_core_distribution",
        "ip_offset",
        "ip_offset_server",
    ],
    told: &[],
};
const ADDRESSES_OF_PAIRS: &str =
    "it is added to the addresses of further pairs of ports, and there is one pair here";
const PROGRAM: Keys = Keys {
    read: &["commands", "stream"],
    told: &[(
        "addon",
        "messages bear nothing of an add-on; delays are measured with the program 'messages'",
    )],
};
const BUFFER: Keys = Keys { read: &["base", "size", "fill"], told: &[] };
const RULE: Keys = Keys {
    read: &["port"],
    told: &[
        ("l7_map", OF_ONE_PORT),
        ("ip_start", OF_ONE_PORT),
        ("ip_end", OF_ONE_PORT),
        ("assoc_id", "a server is known by its address and port"),
    ],
};
const OF_ONE_PORT: &str = "a server is known by its address and port: templates at one port have a part of the servers each";

/// Whether a value says nothing.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Object(keys) => keys.is_empty(),
        Value::Array(all) => all.is_empty(),
        _ => false,
    }
}

impl<'a> Reader<'a, '_, '_> {
    fn tell_keys(&mut self, keys: &Keys, path: &KeyPath, map: &Map<String, Value>) {
        for (key, value) in map {
            if keys.read.contains(&key.as_str()) || is_nothing(value) {
                continue;
            }
            let why = keys.told.iter().find(|(of, _)| of == key).map(|(_, why)| *why);
            self.leave_out(&path.clone().key(key), why.unwrap_or("it has no meaning here"));
        }
    }

    /// Tells what is not carried over of what all templates share.
    pub(super) fn tell_profile(&mut self) {
        self.tell_keys(&PROFILE, &KeyPath::default(), self.profile);
        for end in [End::Client, End::Server] {
            let (_, key) = end.keys();
            self.tell_tunables(&KeyPath::root(key), self.profile.get(key));
        }
        for (list, keys) in
            [("program_list", &PROGRAM), ("buf_list", &BUFFER), ("ip_gen_dist_list", &ADDRESSES)]
        {
            for (number, entry) in self.list(list).iter().enumerate() {
                if let Value::Object(map) = entry {
                    self.tell_keys(keys, &KeyPath::root(list).index(number), map);
                }
            }
        }
        let mut has_offset = false;
        for (number, pool) in self.list("ip_gen_dist_list").iter().enumerate() {
            let path = KeyPath::root("ip_gen_dist_list").index(number);
            if let Some(order) = pool.get("distribution").filter(|order| !order.is_null())
                && !matches!(order.as_str(), Some("seq" | "rand" | "random"))
            {
                self.leave_out(
                    &path.clone().key("distribution"),
                    "it is not one of seq, rand: addresses are taken in turn",
                );
            }
            let per_core = pool.get("per_core_distribution").and_then(Value::as_str);
            if per_core.is_some_and(|word| word != "default") {
                let why = "cores share the addresses of a pool as they come";
                self.leave_out(&path.clone().key("per_core_distribution"), why);
            }
            for key in ["ip_offset", "ip_offset_server"] {
                // all generators have it: once is enough
                if pool.get(key).is_some_and(|value| !is_nothing(value)) && !has_offset {
                    self.leave_out(&path.clone().key(key), ADDRESSES_OF_PAIRS);
                    has_offset = true;
                }
            }
        }
    }

    /// Tells what is not carried over of template `number`.
    pub(super) fn tell_template(&mut self, number: usize, template: &'a Value) {
        let path = KeyPath::root("templates").index(number);
        if let Value::Object(map) = template {
            self.tell_keys(&TEMPLATE, &path, map);
        }
        for (end, keys) in [(End::Client, &CLIENT), (End::Server, &SERVER)] {
            let (key, _) = end.keys();
            let here = path.clone().key(key);
            let Some(Value::Object(map)) = template.get(key) else { continue };
            self.tell_keys(keys, &here, map);
            self.tell_tunables(&here.clone().key("glob_info"), map.get("glob_info"));
            if let Some(Value::Object(generator)) = map.get("ip_gen") {
                self.tell_keys(&GENERATOR, &here.clone().key("ip_gen"), generator);
            }
            let rules = map.get("assoc").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let assoc = here.key("assoc");
            if rules.len() > 1 {
                self.leave_out(&assoc, "servers are at the port of the first one alone");
            }
            for (number, rule) in rules.iter().enumerate() {
                if let Value::Object(rule) = rule {
                    self.tell_keys(&RULE, &assoc.clone().index(number), rule);
                }
            }
        }
    }
}
