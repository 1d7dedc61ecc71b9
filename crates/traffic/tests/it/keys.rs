//! Every key of the language: what the schema and the page name is read, and what is printed is read again as the same.
//!
//! The schema is walked with all its keys and alternatives, each in a scenario that has no more than it needs. What a key
//! needs beside it stands in two tables, so that a new key that is refused by itself fails here until somebody says why.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::{Map, Value, json};
use wirebeat_traffic::scenario::{Scenario, json_schema};

use crate::world::root;

/// Values of places that take no value of their type alone: the end of the path of keys, and what is written there.
const VALUES: &[(&str, &[&str])] = &[
    ("ports.a.mtu", &["1500B", "1500"]),
    ("ports.a.queues", &["1"]),
    ("flows.x.from", &["a"]),
    ("flows.x.to", &["b"]),
    ("flows.x.start", &["1s", "0"]),
    ("flows.x.stop", &["5s"]),
    ("sessions.g.from", &["a"]),
    ("sessions.g.to", &["b"]),
    ("sessions.g.start", &["1s", "0"]),
    ("sessions.g.stop", &["5s"]),
    (
        ".clients.mac",
        &[
            "02:00:00:00:00:01",
            r#"{ "increment": "02:00:00:00:00:01", "step": 4, "count": 9 }"#,
            r#"{ "decrement": "02:00:00:00:00:01" }"#,
            r#"{ "list": ["02:00:00:00:00:01", "06:00:00:00:00:01"] }"#,
        ],
    ),
    (".servers.mac", &[r#"{ "increment": "02:00:00:00:00:01" }"#]),
    ("flows.x.expect", &[r#"["loss <= 0.01%", "interval.delay.p99 < 5ms"]"#]),
    ("expect", &[r#"["loss <= 0.01%", "x: lost == 0", { "*": "interval.loss < 1%" }]"#]),
    ("sessions.g.expect", &[r#"["established >= 1000", "response.p99.actual < 5ms"]"#]),
    ("sessions.g.tcp.mss", &["1000"]),
    ("sessions.g.limit.opening", &["1000/s", "1/3s"]),
    ("sessions.g.limit.closing", &["1000/s"]),
    ("sessions.g.limit.sending", &["1000/s"]),
    ("sessions.g.after.group", &["h"]),
    ("mix.rate", &["1Gbps", "1Gbps@line", "1000/s"]),
    (".jump.if", &["n < 3"]),
    ("sessions.g.tcp.delayed-ack", &["40ms", "0"]),
    ("sessions.g.tcp.fin-timeout", &["2s"]),
    ("sessions.g.tcp.time-wait", &["0s", "2m"]),
    ("sessions.g.tcp.user-timeout", &["1.5s"]),
    (".rto.initial", &["1s"]),
    (".rto.min", &["100ms"]),
    (".rto.max", &["2m"]),
    (".keep-alive.idle", &["10s"]),
    (".keep-alive.interval", &["10s"]),
    ("ports.a.cable.loss", &["0.01", "1"]),
    ("ports.a.hosts.vlan", &["7"]),
    ("ports.a.hosts.gateways", &[r#"["10.0.0.254", "2001:db8::fe"]"#]),
    (".http.target", &["/index.html?a=b"]),
    (".slow-write.target", &["/index.html?a=b"]),
    (".slow-read.target", &["/index.html?a=b"]),
    (".zero-window.target", &["/index.html?a=b"]),
    (".overlapping.target", &["/index.html?a=b"]),
    (".out-of-window.target", &["/index.html?a=b"]),
    (".bad-checksum.target", &["/index.html?a=b"]),
    (".ack-unsent.target", &["/index.html?a=b"]),
    (".rst-storm.target", &["/index.html?a=b"]),
    (".sequence-guess.target", &["/index.html?a=b"]),
    (".dns.name", &["host-{n}.example.com"]),
    (".dns.answers", &[r#"["10.0.0.1", "2001:db8::1"]"#]),
    (".dns.ttl", &["60s"]),
    (".http.status", &["404"]),
    (".http.expect-status", &["301"]),
    (".receive-http.expect-status", &["301"]),
    (
        ".steps.server",
        &[
            r#"["request", { "send": "9B" }, "response", { "start": "all" }, { "stop": "all" }, "reset"]"#,
            r#"[{ "set": { "n": 3 } }, { "label": "again" }, { "jump": { "to": "again", "if": "n < 3" } }, { "send": "9B" }, { "jump": { "to": "again" } }]"#,
        ],
    ),
    (".repeat.steps", &[r#"[{ "send": "5B" }, { "receive": "5B" }]"#]),
    (".request.uniform.min", &["64B"]),
    (".request.uniform.max", &["1518B"]),
    (".response.uniform.min", &["64B"]),
    (".response.uniform.max", &["1518B"]),
    (".send.uniform.min", &["64B"]),
    (".send.uniform.max", &["1518B"]),
    (".receive.uniform.min", &["64B"]),
    (".receive.uniform.max", &["1518B"]),
    (".request.log-normal", &[r#"{ "mean": "500B", "sigma": 0.5 }"#]),
    (".response.log-normal", &[r#"{ "mean": "500B", "sigma": 0.5 }"#]),
    (".send.log-normal", &[r#"{ "mean": "500B", "sigma": 0.5 }"#]),
    (".receive.log-normal", &[r#"{ "mean": "500B", "sigma": 0.5 }"#]),
    // those of flows are walked
    ("sessions.g.rate", &["1000/s", r#"{ "ramp": { "from": "1/s", "to": "5/s", "over": "1s" } }"#]),
    ("sessions.g.departures", &["poisson", r#"{ "jitter": "10%" }"#]),
    (
        "sessions.g.at",
        &[
            r#"{ "1s": { "rate": "2000/s" }, "2s": { "departures": "poisson" } }"#,
            r#"{ "1s": "pause", "2s": "resume" }"#,
        ],
    ),
    ("run.time", &["5s"]),
    ("run.start-at", &["2100-01-01T00:00:00Z"]),
    (".filter", &["udp port 53"]),
    (".replay.from", &["2015-07-01T19:00:00Z"]),
    (".replay.to", &["2026-11-20T18:00:00Z"]),
    (".replay.buffer", &["64MiB"]),
    (".rewrite.addresses", &[r#"{ "10.0.0.0/8": "11.0.0.0/8" }"#]),
    (".rate.steps", &[r#"{ "0s": "1kpps", "1s": "2Mbps@line" }"#]),
    (".frame.hex", &["ffffffffffff 020000000001 88b5 0001"]),
    (".size.uniform.min", &["64B"]),
    (".size.uniform.max", &["1518B"]),
    (".uniform.min", &["50us"]),
    (".uniform.max", &["1ms"]),
    (
        ".size.log-normal",
        &[
            r#"{ "mean": "500B", "deviation": "25%" }"#,
            r#"{ "mean": "500B", "sigma": 0.5 }"#,
            r#"{ "mu": 6, "sigma": 0.5 }"#,
        ],
    ),
    (
        ".log-normal",
        &[
            r#"{ "mean": "1ms", "deviation": "25%" }"#,
            r#"{ "mean": "1ms", "sigma": 0.5 }"#,
            r#"{ "mu": 14, "sigma": 0.5 }"#,
        ],
    ),
    (".probe.codec", &["mgen"]),
    (".rate.every", &["30s"]),
    (".ramp.from", &["1kpps", "1Mbps@line"]),
    (".ramp.to", &["2kpps", "2Mbps@line"]),
    (".sine.mean", &["2kpps"]),
    (".sine.amplitude", &["1kpps"]),
    (".rewrite.ports", &[r#"{ "80": 8080 }"#, r#"{ "1000-1999": "5000-5999" }"#]),
    (".shape", &["2", "1.5"]),
    (".text", &["hello"]),
    // what these may be is walked where a flow begins with them
    ("ports.a.peer", &["10.0.0.3:5960"]),
    (".at.departures", &["exponential"]),
    (".at.packet", &[r#"[{ "ipv4": { "ttl": 3 } }, { "udp": {} }]"#]),
    (".at.rate", &["2kpps"]),
    (".at.size", &["imix"]),
    (".at.sub-flows", &["4"]),
];

/// The name of a key in a map whose keys are the user's own, by the end of its path.
const NAMES: &[(&str, &str)] = &[
    (".at", "1s"),
    (".mix", "64B"),
    (".steps", "0s"),
    (".rewrite.addresses", "10.0.0.0/8"),
    (".rewrite.ports", "80"),
    (".rewrite.vlan", "5"),
    (".http.headers", "Accept"),
    ("mix.shares", "g"),
    (".set", "n"),
    (".add", "n"),
    (".http.response-headers", "Server"),
];

/// A group over our own TCP, for what the system cannot do.
const OWN: &str = r#"{ "sessions": { "g": { "stack": "own", "clients": { "addresses": "10.0.0.7" }, "servers": { "addresses": "10.0.0.8" } } } }"#;

/// What else a scenario has where a key is in use, by its path, the beginning of that, or the path, '=' and a word. It lies
/// beneath the value; null takes a key away.
const NEEDS: &[(&str, &str)] = &[
    ("ports.a.engine=kernel", r#"{ "ports": { "a": { "interface": "eth1" } } }"#),
    ("ports.a.engine=packet", r#"{ "ports": { "a": { "interface": "eth1" } } }"#),
    ("ports.a.engine=pcap", r#"{ "ports": { "a": { "file": "x.pcapng" } } }"#),
    ("ports.a.engine=xdp", r#"{ "ports": { "a": { "interface": "eth1" } } }"#),
    ("ports.a.busy-poll", r#"{ "ports": { "a": { "engine": "xdp", "interface": "eth1" } } }"#),
    ("ports.a.launch-time", r#"{ "ports": { "a": { "engine": "xdp", "interface": "eth1" } } }"#),
    ("ports.a.receive-hash", r#"{ "ports": { "a": { "engine": "xdp", "interface": "eth1" } } }"#),
    ("ports.a.xdp-mode", r#"{ "ports": { "a": { "engine": "xdp", "interface": "eth1" } } }"#),
    ("ports.a.file", r#"{ "ports": { "a": { "engine": "pcap" } } }"#),
    ("ports.a.peer", r#"{ "flows": { "x": { "from": "b", "to": "a" } } }"#),
    (
        "ports.a.key-file",
        r#"{ "ports": { "a": { "peer": "10.0.0.3:5960" } }, "flows": { "x": { "from": "b", "to": "a" } } }"#,
    ),
    ("run.drift", r#"{ "run": { "late": "drop" } }"#),
    ("sessions.g.limit.beyond", r#"{ "sessions": { "g": { "limit": { "open": 5 } } } }"#),
    (
        "sessions.g.after",
        r#"{ "sessions": { "h": { "from": "a", "program": "http", "rate": "1/s", "servers": { "addresses": "10.0.0.8", "ports": 80 } } } }"#,
    ),
    (
        "mix",
        r#"{ "sessions": { "g": { "from": "a", "program": "http", "servers": { "addresses": "10.0.0.8", "ports": 80 } } } }"#,
    ),
    ("mix.rate", r#"{ "mix": { "shares": { "g": 1 } } }"#),
    ("mix.shares", r#"{ "mix": { "rate": "1/s" } }"#),
    ("sessions.g.stack=own", OWN),
    ("sessions.g.clients.mac", OWN),
    (
        "sessions.g.servers.mac",
        r#"{ "sessions": { "g": { "to": "b", "stack": "own", "clients": { "addresses": "10.0.0.7" }, "servers": { "addresses": "10.0.0.8" } } } }"#,
    ),
    ("sessions.g.tcp.black-hole-detection", OWN),
    ("sessions.g.tcp.data-retries", OWN),
    ("sessions.g.tcp.delayed-ack", OWN),
    ("sessions.g.tcp.ecn", OWN),
    ("sessions.g.tcp.fin-timeout", OWN),
    ("sessions.g.tcp.initial-window", OWN),
    ("sessions.g.tcp.rto.initial", OWN),
    ("sessions.g.tcp.sack", OWN),
    ("sessions.g.tcp.time-wait", OWN),
    ("sessions.g.tcp.timestamps", OWN),
    ("sessions.g.tcp.window-scaling", OWN),
    (
        "sessions.g.program.misbehave",
        r#"{ "sessions": { "g": { "stack": "own", "limit": { "open": 5 }, "clients": { "addresses": "10.0.0.7" }, "servers": { "addresses": "10.0.0.8" } } } }"#,
    ),
    ("sessions.g.tls.certificate", r#"{ "sessions": { "g": { "tls": { "key": "k.pem" } } } }"#),
    ("sessions.g.tls.key", r#"{ "sessions": { "g": { "tls": { "certificate": "c.pem" } } } }"#),
    ("sessions.g.transport=udp", r#"{ "sessions": { "g": { "program": "echo" } } }"#),
    (
        "sessions.g.on-timeout=next",
        r#"{ "sessions": { "g": { "transport": "udp", "program": "echo" } } }"#,
    ),
    (
        "sessions.g.program.request-response.numbers",
        r#"{ "sessions": { "g": { "transport": "udp" } } }"#,
    ),
    ("sessions.g.pair=payload", r#"{ "sessions": { "g": { "to": "b", "program": "echo" } } }"#),
    ("sessions.g.users", r#"{ "sessions": { "g": { "rate": null } } }"#),
    ("sessions.g.think", r#"{ "sessions": { "g": { "rate": null, "users": 3 } } }"#),
    (
        "sessions.g.program.http.expect-continue",
        r#"{ "sessions": { "g": { "program": { "http": { "body": "10B" } } } } }"#,
    ),
    (
        "flows.x.at.sub-flows",
        r#"{ "flows": { "x": { "rate": null, "replay": { "archive": "x", "flow-of": "device" } } } }"#,
    ),
    (
        "flows.x.departures.on-off",
        r#"{ "flows": { "x": { "departures": { "on-off": { "off": "1s" } } } } }"#,
    ),
    (
        "flows.x.departures.on-off.every",
        r#"{ "flows": { "x": { "departures": { "on-off": { "off": null } } } } }"#,
    ),
    (
        "flows.x.sub-flows.order=one-by-one",
        r#"{ "flows": { "x": { "sub-flows": { "length": 4 } } } }"#,
    ),
    ("flows.x.replay", r#"{ "flows": { "x": { "rate": null, "replay": { "archive": "x" } } } }"#),
    (
        "flows.x.replay.copies",
        r#"{ "flows": { "x": { "replay": { "copies": { "rate": "5/s", "count": 3 } } } } }"#,
    ),
    (
        "flows.x.replay.copies.departures.on-off",
        r#"{ "flows": { "x": { "replay": { "copies": { "departures": { "on-off": { "off": "1s" } } } } } } }"#,
    ),
    (
        "flows.x.replay.copies.departures.on-off.every",
        r#"{ "flows": { "x": { "replay": { "copies": { "departures": { "on-off": { "off": null } } } } } } }"#,
    ),
    ("flows.x.replay.out-of-order.cores", r#"{ "ports": { "a": { "queues": 2 } } }"#),
    (
        "flows.x.replay.statistics=sub-flow",
        r#"{ "flows": { "x": { "replay": { "flow-of": "device" } } } }"#,
    ),
    ("flows.x.replay.sub-flows", r#"{ "flows": { "x": { "replay": { "flow-of": "device" } } } }"#),
];

/// Keys that only captures have.
const OF_CAPTURES: [&str; 7] =
    ["capture", "copies", "filter", "reorder-window", "rewrite", "side", "truncated"];

/// What the schema allows and the language refuses, with the reason: what a schema does not say.
const REFUSED: &[(&str, &str, &str)] = &[
    ("sessions.g.tos", "1", "those of ECN"),
    ("flows.x.at", r#"{"1s":{}}"#, "nothing changes"),
    ("flows.x.replay.copies.rate", r#"{"copies":{"rate":"2Gbps"}}"#, "does not count copies"),
    ("flows.x.replay.copies.rate", r#"{"copies":{"rate":"2Gbps@line"}}"#, "does not count copies"),
    ("flows.x.replay.copies.rate", r#"{"copies":{"rate":"50%"}}"#, "does not count copies"),
    (
        "flows.x.replay.copies.rate.every",
        r#"{"copies":{"rate":{"every":"30s","steps":{"0s":"1kpps","1s":"2Mbps@line"}}}}"#,
        "does not count copies",
    ),
    (
        "flows.x.replay.copies.rate.steps",
        r#"{"copies":{"rate":{"steps":{"0s":"1kpps","1s":"2Mbps@line"}}}}"#,
        "does not count copies",
    ),
    (
        "flows.x.replay.copies.rate.ramp.from",
        r#"{"copies":{"rate":{"ramp":{"from":"1Mbps@line","over":"100us","to":"2kpps"}}}}"#,
        "does not count copies",
    ),
    (
        "flows.x.replay.copies.rate.ramp.to",
        r#"{"copies":{"rate":{"ramp":{"from":"1kpps","over":"100us","to":"2Mbps@line"}}}}"#,
        "does not count copies",
    ),
    ("run.interval", r#""100us""#, "10ms at least"),
    ("run.interval", r#""1.5ms""#, "10ms at least"),
    ("sessions.g.tcp.send-buffer", r#"{"send-buffer":"100B"}"#, "1kB to 1GiB"),
    ("sessions.g.tcp.receive-buffer", r#"{"receive-buffer":"100B"}"#, "1kB to 1GiB"),
    ("sessions.g.program.steps.client", r#"{"steps":{"client":["response"]}}"#, "no 'request'"),
    (
        "sessions.g.program.steps.client.jump.to",
        r#"{"steps":{"client":[{"jump":{"to":"name"}}]}}"#,
        "no label",
    ),
    (
        "sessions.g.program.steps.client.jump.if",
        r#"{"steps":{"client":[{"jump":{"if":"n < 3","to":"name"}}]}}"#,
        "no label",
    ),
    (
        "sessions.g.program.steps.client.stop",
        r#"{"steps":{"client":[{"stop":"name"}]}}"#,
        "not started before",
    ),
];

/// A value of some node of the schema, and the keys down to what is special in it.
#[derive(Clone, Debug)]
struct Made {
    value: Value,
    path: String,
}

struct Walk {
    types: Value,
}

impl Walk {
    /// Values that stand for all that a node allows: each alternative and each key once. The first is as short as it can be.
    fn of(&self, node: &Value, path: &str, inside: &[&str]) -> Vec<Made> {
        let one = |value: Value| Made { value, path: path.to_owned() };
        // a top-level key is named whole: others may end like it
        let named = |end: &str| path == end || end.contains('.') && path.ends_with(end);
        if let Some((_, texts)) = VALUES.iter().find(|(end, _)| named(end)) {
            let read = |text: &&str| serde_json::from_str(text).unwrap_or_else(|_| json!(text));
            return texts.iter().map(read).map(one).collect();
        }
        if let Some(name) = node["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
            // that a variable may stand there is tested with the variables
            if name == "variable" {
                return Vec::new();
            }
            return match inside.contains(&name) {
                true => self.shortest(&self.types[name], path).into_iter().map(one).collect(),
                false => self.of(&self.types[name], path, &[inside, &[name]].concat()),
            };
        }
        if let Some(values) = node["enum"].as_array().or(node["examples"].as_array()) {
            return values.iter().cloned().map(one).collect();
        }
        if let Some(choices) = ["anyOf", "oneOf"].iter().find_map(|key| node[*key].as_array()) {
            return choices.iter().flat_map(|choice| self.of(choice, path, inside)).collect();
        }
        if let Some(value) = node.get("const") {
            return vec![one(value.clone())];
        }
        let kinds: Vec<&str> = match &node["type"] {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            kind => kind.as_str().into_iter().collect(),
        };
        kinds
            .into_iter()
            .filter(|kind| *kind != "null")
            .flat_map(|kind| self.of_kind(kind, node, path, inside))
            .collect()
    }

    /// A word or a number, where a type is within itself.
    fn shortest(&self, node: &Value, path: &str) -> Option<Value> {
        let choices = node["anyOf"].as_array().into_iter().flatten().chain([node]);
        let plain = |node: &&Value| node.get("const").or_else(|| node["enum"].get(0)).cloned();
        let found = choices.clone().find_map(|node| plain(&node));
        assert!(found.is_some() || node.get("oneOf").is_some(), "{path}: what is short of {node}?");
        found
    }

    fn of_kind(&self, kind: &str, node: &Value, path: &str, inside: &[&str]) -> Vec<Made> {
        let one = |value: Value| vec![Made { value, path: path.to_owned() }];
        match kind {
            "object" => self.of_object(node, path, inside),
            "array" => {
                let least = node["minItems"].as_u64().unwrap_or(1) as usize;
                let of = self.of(&node["items"], path, inside).into_iter();
                of.map(|item| Made { value: json!(vec![item.value; least]), path: item.path })
                    .collect()
            }
            "integer" => one(json!(node["minimum"].as_u64().unwrap_or(1).max(1))),
            "number" => one(json!(0.5)),
            "boolean" => one(json!(true)),
            "string" => one(json!(match (node["format"].as_str(), node["pattern"].as_str()) {
                (Some("ipv4" | "ip"), _) => "10.0.0.2",
                (Some("ipv6"), _) => "2001:db8::2",
                (None, None) => "name",
                (None, Some(pattern)) if pattern.contains("0[xX]") => "0x1",
                other => panic!("{path}: what is of {other:?}? give the type examples"),
            })),
            other => panic!("{path}: what is {other}?"),
        }
    }

    fn of_object(&self, node: &Value, path: &str, inside: &[&str]) -> Vec<Made> {
        let no_keys = Map::new();
        let keys = node["properties"].as_object().unwrap_or(&no_keys);
        let needed: BTreeSet<&str> =
            node["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let values: BTreeMap<&str, Vec<Made>> = keys
            .iter()
            .map(|(key, node)| (key.as_str(), self.of(node, &format!("{path}.{key}"), inside)))
            .collect();
        let least: Map<String, Value> =
            needed.iter().map(|key| ((*key).to_owned(), values[key][0].value.clone())).collect();
        let mut all = Vec::new();
        if needed.is_empty() && !keys.is_empty() {
            all.push(Made { value: json!({}), path: path.to_owned() });
        }
        for (key, made) in values {
            for Made { value, path } in made {
                let mut object = least.clone();
                object.insert(key.to_owned(), value);
                all.push(Made { value: object.into(), path });
            }
        }
        if let Some(of_each) = node.get("additionalProperties").filter(|of| of.is_object()) {
            let known = NAMES.iter().find(|(end, _)| path.ends_with(end));
            let name = known.unwrap_or_else(|| panic!("{path}: how is a key called there?")).1;
            let of_each = self.of(of_each, path, inside).into_iter();
            all.extend(
                of_each.map(|made| Made { value: json!({ name: made.value }), path: made.path }),
            );
        }
        all
    }
}

/// Lays `over` over `under`.
fn lay(under: &mut Value, over: &Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                if value.is_null() {
                    under.remove(key);
                } else {
                    lay(under.entry(key).or_insert(json!({})), value);
                }
            }
        }
        (under, over) => *under = over.clone(),
    }
}

/// The scenario with a value in its place, and what goes with it.
fn scenario(made: &Made) -> Value {
    let mut whole = json!({
        "ports": { "a": {}, "b": {} },
        "flows": { "x": { "from": "a", "to": "b", "rate": "1kpps" } },
        "run": { "time": "5s" },
    });
    let keys: Vec<&str> = made.path.split('.').collect();
    if keys[0] == "sessions" {
        whole = json!({
            "ports": { "a": {}, "b": {} },
            "sessions": { "g": {
                "from": "a", "to": "b", "program": "http", "rate": "10/s",
                "servers": { "addresses": "10.0.0.2", "ports": 80 }
            } },
            "run": { "time": "5s" },
        });
    }
    let of_parts = ["ports", "flows", "sessions"].contains(&keys[0]);
    let depth = if of_parts { 3 } else { 2 }.min(keys.len());
    let value = match keys[..] {
        ["flows", "x", "packet", header, ..] => packet(header, &made.value),
        _ => made.value.clone(),
    };
    let over = keys[..depth].iter().rev().fold(value, |value, key| json!({ *key: value }));
    let inner = keys[depth..].iter().try_fold(&made.value, |value, key| value.get(key));
    let word = inner.and_then(Value::as_str).map(|word| format!("{}={word}", made.path));
    for (path, needs) in NEEDS {
        let within = made.path == *path || made.path.starts_with(&format!("{path}."));
        if within || word.as_deref() == Some(path) {
            let needs =
                serde_json::from_str(needs).unwrap_or_else(|error| panic!("{path}: {error}"));
            lay(&mut whole, &needs);
        }
    }
    let flow = |keys: Value| json!({ "flows": { "x": keys } });
    if keys.get(2) == Some(&"replay") && keys.get(3).is_some_and(|key| OF_CAPTURES.contains(key)) {
        lay(&mut whole, &flow(json!({ "replay": { "archive": null, "capture": "x.pcap" } })));
    }
    if keys[0] == "flows" && over.to_string().contains(r#""resume""#) {
        lay(&mut whole, &flow(json!({ "at": { "0.5s": "pause" } })));
    }
    // sub-flows and patterns that advance with them go together
    if over.to_string().contains(r#""per":"sub-flow""#) {
        lay(&mut whole, &flow(json!({ "sub-flows": { "count": 2 } })));
    }
    lay(&mut whole, &over);
    let x = &whole["flows"]["x"];
    if keys.get(2) == Some(&"sub-flows") || x["replay"].get("flow-of").is_some() {
        let varied =
            json!([{ "ipv4": {} }, { "udp": { "source": { "increment": 1, "per": "sub-flow" } } }]);
        lay(&mut whole, &flow(json!({ "packet": varied })));
    }
    whole
}

/// A packet around a header, so that it stands where it may.
fn packet(header: &str, value: &Value) -> Value {
    let before = match header {
        "udp" | "tcp" | "icmp" | "igmp" | "gre" | "sctp" | "dccp" => json!([{ "ipv4": {} }]),
        "icmpv6" | "hop-by-hop" | "routing" | "fragment" | "destination-options" => {
            json!([{ "ipv6": {} }])
        }
        "vxlan" | "payload" => json!([{ "ipv4": {} }, { "udp": {} }]),
        _ => json!([]),
    };
    [before, value.clone()]
        .iter()
        .flat_map(|part| part.as_array().cloned().unwrap_or_default())
        .collect()
}

/// Every key and alternative of the schema, as a scenario each.
fn all() -> Vec<Made> {
    let schema = json_schema();
    let walk = Walk { types: schema["$defs"].clone() };
    let mut all = Vec::new();
    for (key, node) in schema["properties"].as_object().unwrap() {
        let of = |path: &str, name: &str| {
            let of_part = walk.types[name]["properties"].as_object().unwrap().iter();
            let of_part =
                of_part.flat_map(|(key, node)| walk.of(node, &format!("{path}.{key}"), &[]));
            of_part.collect::<Vec<_>>()
        };
        all.extend(match key.as_str() {
            "ports" => of("ports.a", "PortSpec"),
            "flows" => of("flows.x", "FlowSpec"),
            "sessions" => of("sessions.g", "SessionSpec"),
            "run" => of("run", "RunSpec"),
            "mix" => of("mix", "Mix"),
            "seed" => walk.of(node, "seed", &[]),
            "expect" => walk.of(node, "expect", &[]),
            // those of files have a test of their own
            "include" | "variables" => Vec::new(),
            other => panic!("what is '{other}'?"),
        });
    }
    all
}

#[test]
fn every_key_of_the_schema_is_read_and_printed_as_the_same() {
    let all = all();
    let paths: BTreeSet<&str> = all.iter().map(|made| made.path.as_str()).collect();
    assert!(paths.len() > 300, "{paths:?}");
    let mut refused = Vec::new();
    for made in &all {
        let text = scenario(made).to_string();
        match Scenario::from_yaml(&text, "") {
            Err(error) => {
                let found = made.value.to_string();
                let known = REFUSED.iter().find(|(path, value, why)| {
                    made.path == *path && found == *value && error.to_string().contains(why)
                });
                if known.is_none() {
                    refused.push(format!("{}: {error}\n    {text}", made.path));
                }
            }
            Ok(scenario) => {
                let printed = scenario.to_yaml().unwrap();
                match Scenario::from_yaml(&printed, "printed") {
                    Ok(again) if again == scenario && again.to_yaml().as_ref() == Ok(&printed) => {}
                    Ok(_) => refused
                        .push(format!("{}: another is printed\n    {text}\n{printed}", made.path)),
                    Err(error) => {
                        refused.push(format!("{}: {error}\n    {text}\n{printed}", made.path))
                    }
                }
            }
        }
    }
    assert!(
        refused.is_empty(),
        "{} of {} are refused:\n{}",
        refused.len(),
        all.len(),
        refused.join("\n")
    );
}

/// The cells of a line of a table.
fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split(" | ").map(str::trim).collect()
}

/// Every key that the page has in a table is a key of the schema; the other way round is tested with the examples.
#[test]
fn every_key_of_the_page_is_one_of_the_schema() {
    fn properties(node: &Value, found: &mut BTreeSet<String>) {
        if let Some(keys) = node["properties"].as_object() {
            found.extend(keys.keys().cloned());
        }
        let inner = node.as_object().into_iter().flat_map(Map::values);
        inner.chain(node.as_array().into_iter().flatten()).for_each(|node| properties(node, found));
    }
    let mut known = BTreeSet::new();
    properties(&json_schema(), &mut known);
    let page = fs::read_to_string(root().join("docs/scenario.md")).unwrap();
    let lines: Vec<&str> = page.lines().collect();
    let (mut column, mut named) = (None, BTreeSet::new());
    for (place, line) in lines.iter().enumerate() {
        if !line.starts_with('|') {
            column = None;
        } else if lines.get(place + 1).is_some_and(|next| next.starts_with("|---")) {
            column = cells(line).iter().position(|cell| cell.starts_with("key"));
        } else if let Some(cell) = column.and_then(|column| cells(line).get(column).copied()) {
            let words = cell.split('`').skip(1).step_by(2);
            named.extend(words.map(str::to_owned));
        }
    }
    assert!(named.len() > 80, "{named:?}");
    let unknown: Vec<&String> = named.difference(&known).filter(|key| !key.is_empty()).collect();
    assert!(unknown.is_empty(), "docs/scenario.md has keys that the schema does not: {unknown:?}");
}
