//! How metrics are pushed: by the flag, and by the variables that OpenTelemetry has for all programs. They are looked at only where
//! the flag is, so that no environment makes this program connect to anybody.

use std::path::PathBuf;
use std::time::Duration;

use wirebeat_units::{Fault, fault};

use super::OtlpArgs;
use super::endpoint::{Endpoint, PathRule, Scheme};
use crate::failure::Failure;

/// How often values are pushed where nothing is said: as often as a run tells them by default.
const PERIOD: Duration = Duration::from_secs(1);
const PERIODS_MS: [u64; 2] = [100, 86_400_000];
/// How long one push may take where nothing is said (specification of the OTLP exporter).
const TIMEOUT: Duration = Duration::from_secs(10);
const TIMEOUTS_MS: [u64; 2] = [1, 60_000];
/// The most pairs of a list.
const PAIRS_MAX: usize = 64;
/// Headers that are not the user's to choose.
const OWN: [&str; 7] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "transfer-encoding",
];

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const METRICS_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
const HEADERS: [&str; 2] = ["OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
const TIMEOUTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
const CERTIFICATES: [&str; 2] =
    ["OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"];
const INTERVAL: &str = "OTEL_METRIC_EXPORT_INTERVAL";
const SERVICE: &str = "OTEL_SERVICE_NAME";
const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";

/// How metrics are pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where to.
    pub endpoint: Endpoint,
    /// What is sent along, by names and values that a header can have.
    pub headers: Vec<(String, String)>,
    /// From one push to the next.
    pub period: Duration,
    /// How long one may take.
    pub timeout: Duration,
    /// Attributes of the program.
    pub resource: Vec<(String, String)>,
    /// Whose certificates are trusted, and by whose word the file is named.
    pub authority: Option<(PathBuf, &'static str)>,
}

/// Variables of an environment, by name. One without text is as if it were not there (specification of environment variables).
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The first of these that there is, with its name.
fn first(variables: Variables<'_>, names: &[&'static str]) -> Option<(&'static str, String)> {
    names.iter().find_map(|name| {
        let value = variables(name).filter(|value| !value.trim().is_empty())?;
        Some((*name, value.trim().to_owned()))
    })
}

impl Settings {
    /// As the flags say, and where they do not, the environment. `instance` is the name of this run of this `version`.
    ///
    /// # Errors
    /// A URL, a list or a number that is not valid, or that cannot be what was meant.
    pub fn of(
        args: &OtlpArgs,
        variables: Variables<'_>,
        (version, instance): (&str, &str),
    ) -> Result<Option<Settings>, Failure> {
        let Some(url) = args.otlp.as_deref() else { return Ok(None) };
        let endpoint = match url {
            "" => endpoint(variables)?,
            url => Endpoint::parse(url, PathRule::OrMetrics)
                .map_err(|fault| Failure::usage(fault).at("--otlp"))?,
        };
        let headers = headers(variables)?;
        guard(&endpoint, &headers)?;
        let by_flag = args.otlp_ca.clone().map(|path| (path, "--otlp-ca"));
        let by_variable = || {
            let (name, path) = first(variables, &CERTIFICATES)?;
            Some((PathBuf::from(path), name))
        };
        Ok(Some(Settings {
            headers,
            period: milliseconds(variables, &[INTERVAL], PERIODS_MS)?.unwrap_or(PERIOD),
            timeout: milliseconds(variables, &TIMEOUTS, TIMEOUTS_MS)?.unwrap_or(TIMEOUT),
            resource: resource(variables, (version, instance))?,
            authority: by_flag.or_else(by_variable).filter(|_| endpoint.scheme == Scheme::Https),
            endpoint,
        }))
    }
}

/// Where the environment says, or the usual place of a collector on this host.
fn endpoint(variables: Variables<'_>) -> Result<Endpoint, Failure> {
    let by = [(METRICS_ENDPOINT, PathRule::AsItIs), (ENDPOINT, PathRule::AboveMetrics)];
    let found = by.iter().find_map(|(name, rule)| Some((first(variables, &[*name])?, *rule)));
    if let Some((name, protocol)) = first(variables, &PROTOCOLS)
        && protocol == "grpc"
    {
        // its port takes no HTTP/1.1
        return Err(Failure::usage(fault!(
            "the collector is spoken to by gRPC, and Wirebeat speaks OTLP over HTTP alone";
            "give the address of its receiver for HTTP, whose port is usually 4318: --otlp http://HOST:4318"
        ))
        .at(name));
    }
    let Some(((name, url), rule)) = found else {
        return Endpoint::parse("http://localhost:4318", PathRule::OrMetrics)
            .map_err(|fault| Failure::usage(fault).at("--otlp"));
    };
    Endpoint::parse(&url, rule).map_err(|fault| Failure::usage(fault).at(name))
}

/// What is in the names of headers that carry secrets.
const SECRETS: [&str; 6] = ["authorization", "cookie", "key", "token", "secret", "password"];

/// A secret goes to other hosts over TLS alone (RFC 6750 §5.3).
fn guard(endpoint: &Endpoint, headers: &[(String, String)]) -> Result<(), Failure> {
    let is_secret = |name: &str| {
        let name = name.to_ascii_lowercase();
        SECRETS.iter().any(|word| name.contains(word))
    };
    let secret = headers.iter().find(|(name, _)| is_secret(name)).map(|(name, _)| name);
    let Some(name) = secret else { return Ok(()) };
    if endpoint.scheme == Scheme::Https || endpoint.is_on_loopback() {
        return Ok(());
    }
    Err(Failure::usage(fault!(
        "the header {name} would go to {} without encryption", endpoint.authority();
        "give an https:// URL, or a collector on this host, which hands metrics on"
    ))
    .at("--otlp"))
}

/// A time in milliseconds.
fn milliseconds(
    variables: Variables<'_>,
    names: &[&'static str],
    [least, most]: [u64; 2],
) -> Result<Option<Duration>, Failure> {
    let Some((name, text)) = first(variables, names) else { return Ok(None) };
    match text.parse::<u64>() {
        Ok(ms) if (least..=most).contains(&ms) => Ok(Some(Duration::from_millis(ms))),
        _ => Err(Failure::usage(fault!(
            "'{text}' is not a time in milliseconds from {least} to {most}";
            "write for example 5000, or unset the variable"
        ))
        .at(name)),
    }
}

/// Names and values of `NAME=VALUE,NAME=VALUE`, whose values are percent-encoded (W3C Baggage §3.3.1).
fn pairs(text: &str) -> Result<Vec<(String, String)>, Fault> {
    let wrong = |part: &str| {
        // values may be secrets
        let name = part.split('=').next().unwrap_or_default();
        fault!("'{}' is not NAME=VALUE", name.trim(); "write NAME=VALUE,NAME=VALUE, with %2C for a comma and %20 for a space in a value")
    };
    let parts: Vec<&str> = text.split(',').filter(|part| !part.trim().is_empty()).collect();
    if parts.len() > PAIRS_MAX {
        return Err(fault!("it has more than {PAIRS_MAX} pairs"));
    }
    let pair = |part: &&str| {
        let (name, value) = part.split_once('=').ok_or_else(|| wrong(part))?;
        let value = decoded(value.trim()).ok_or_else(|| wrong(part))?;
        match name.trim() {
            "" => Err(wrong(part)),
            name => Ok((name.to_owned(), value)),
        }
    };
    parts.iter().map(pair).collect()
}

/// Text without percent-encoding (RFC 3986 §2.1); `None` where it is not UTF-8, or the encoding is not whole.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, more)) = rest.split_first() {
        rest = more;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let (digits, more) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok()?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = more;
    }
    String::from_utf8(bytes).ok()
}

/// Names that are tokens, and values of visible characters and spaces (RFC 9110 §5.6.2, §5.5).
fn headers(variables: Variables<'_>) -> Result<Vec<(String, String)>, Failure> {
    let Some((variable, text)) = first(variables, &HEADERS) else { return Ok(Vec::new()) };
    let failed = |fault: Fault| Failure::usage(fault).at(variable);
    let pairs = pairs(&text).map_err(failed)?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    for (name, value) in &pairs {
        if !name.bytes().all(is_token) {
            return Err(failed(
                fault!("'{name}' is not the name of a header"; "use letters, digits and '-'"),
            ));
        }
        if OWN.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(failed(fault!("the header {name} is Wirebeat's own"; "leave it out")));
        }
        if !value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
            return Err(failed(fault!(
                "the value of {name} has line ends, control characters or others that a header cannot have";
                "write visible ASCII characters and spaces"
            )));
        }
    }
    Ok(pairs)
}

/// Attributes of the program: what the environment says, the name of the service, and what is known here.
fn resource(
    variables: Variables<'_>,
    (version, instance): (&str, &str),
) -> Result<Vec<(String, String)>, Failure> {
    let given = match first(variables, &[ATTRIBUTES]) {
        Some((variable, text)) => {
            pairs(&text).map_err(|fault| Failure::usage(fault).at(variable))?
        }
        None => Vec::new(),
    };
    let service = first(variables, &[SERVICE]).map(|(_, name)| name);
    let known = |key: &str| given.iter().any(|(name, _)| name == key);
    let mut own = vec![("service.version", version.to_owned())];
    if service.is_some() || !known("service.name") {
        own.push(("service.name", service.unwrap_or_else(|| "wirebeat".to_owned())));
    }
    if !known("service.instance.id") {
        own.push(("service.instance.id", instance.to_owned()));
    }
    let others = given.iter().filter(|(name, _)| !own.iter().any(|(key, _)| key == name)).cloned();
    let others: Vec<_> = others.collect();
    Ok(own.into_iter().map(|(key, value)| (key.to_owned(), value)).chain(others).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str, environment: &[(&str, &str)]) -> Result<Settings, Failure> {
        let args = OtlpArgs { otlp: Some(url.to_owned()), otlp_ca: None };
        let find = |name: &str| {
            let found = environment.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Settings::of(&args, &find, ("0.1.0", "i-1")).map(Option::unwrap)
    }

    fn said(environment: &[(&str, &str)]) -> String {
        let failure = of("", environment).unwrap_err();
        assert_eq!(failure.exit_code(), 2);
        failure.to_string()
    }

    #[test]
    fn the_flag_is_enough() {
        let settings = of("http://10.0.0.2:4318", &[]).unwrap();
        assert_eq!(settings.endpoint.url(), "http://10.0.0.2:4318/v1/metrics");
        assert_eq!((settings.period, settings.timeout), (PERIOD, TIMEOUT));
        assert_eq!((settings.headers, settings.authority), (Vec::new(), None));
        let resource: Vec<_> =
            settings.resource.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(
            resource,
            [
                ("service.version", "0.1.0"),
                ("service.name", "wirebeat"),
                ("service.instance.id", "i-1")
            ]
        );
        assert_eq!(of("", &[]).unwrap().endpoint.url(), "http://localhost:4318/v1/metrics");
    }

    #[test]
    fn without_the_flag_no_variable_does_anything() {
        let find = |name: &str| (name == ENDPOINT).then(|| "not a URL".to_owned());
        assert_eq!(Settings::of(&OtlpArgs::default(), &find, ("", "")), Ok(None));
    }

    #[test]
    fn variables_say_where_the_flag_does_not() {
        let url = |environment: &[(&str, &str)]| of("", environment).unwrap().endpoint.url();
        let general = (ENDPOINT, "http://lab:4318/x");
        assert_eq!(url(&[general]), "http://lab:4318/x/v1/metrics");
        assert_eq!(url(&[general, (METRICS_ENDPOINT, "http://lab:9/m")]), "http://lab:9/m");
        assert_eq!(url(&[general, (METRICS_ENDPOINT, "")]), "http://lab:4318/x/v1/metrics");
        assert_eq!(of("http://a", &[general]).unwrap().endpoint.url(), "http://a/v1/metrics");
        let said = said(&[general, (PROTOCOLS[1], "grpc")]);
        assert!(said.contains("gRPC") && said.contains("--otlp http://HOST:4318"), "{said}");
        // without any place, too
        assert!(self::tests::said(&[(PROTOCOLS[1], "grpc")]).contains("gRPC"));
        // where the flag names the place, it is known
        assert!(of("http://a", &[general, (PROTOCOLS[1], "grpc")]).is_ok());
        assert!(of("", &[general, (PROTOCOLS[1], "http/protobuf")]).is_ok());
    }

    #[test]
    fn variables_say_how() {
        let settings = of(
            "https://lab.example",
            &[
                (INTERVAL, "5000"),
                (TIMEOUTS[1], "3000"),
                (TIMEOUTS[0], "2000"),
                (HEADERS[1], "Authorization=Bearer%20a%2Cb, X-Scope-OrgID = 7,"),
                (SERVICE, "lab 3"),
                (ATTRIBUTES, "service.name=other,deployment.environment.name=lab%2C1,service.instance.id=mine,service.version=9"),
                (CERTIFICATES[1], "/ca.pem"),
            ],
        )
        .unwrap();
        assert_eq!((settings.period.as_secs(), settings.timeout.as_secs()), (5, 2));
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        assert_eq!(
            settings.headers,
            pairs(&[("Authorization", "Bearer a,b"), ("X-Scope-OrgID", "7")])
        );
        assert_eq!(
            settings.resource,
            pairs(&[
                ("service.version", "0.1.0"),
                ("service.name", "lab 3"),
                ("deployment.environment.name", "lab,1"),
                ("service.instance.id", "mine"),
            ])
        );
        assert_eq!(settings.authority, Some((PathBuf::from("/ca.pem"), CERTIFICATES[1])));
        let named = of("http://a", &[(ATTRIBUTES, "service.name=other")]).unwrap().resource;
        assert!(named.contains(&("service.name".to_owned(), "other".to_owned())), "{named:?}");
    }

    /// A header of two lines would be two headers, and an ESC would act on the terminal that shows a log.
    #[test]
    fn headers_that_are_none_are_refused_without_their_values() {
        for (text, says) in [
            ("X-Key=s3cret%0d%0aHost: evil", "line ends"),
            ("X-Key=s3cret%1b[2J", "line ends"),
            ("X-Key=s3cret%00", "line ends"),
            ("X-Key=s3cret%e4", "is not NAME=VALUE"),
            ("X-Key=s3cret%4", "is not NAME=VALUE"),
            ("X-Key=s3cret%+1", "is not NAME=VALUE"),
            ("X Key=s3cret", "is not the name of a header"),
            ("X:=s3cret", "is not the name of a header"),
            ("=s3cret", "is not NAME=VALUE"),
            ("X-Key", "is not NAME=VALUE"),
            ("Host=s3cret", "is Wirebeat's own"),
            ("content-LENGTH=0", "is Wirebeat's own"),
            ("Transfer-Encoding=chunked", "is Wirebeat's own"),
        ] {
            let said = said(&[(HEADERS[1], text)]);
            assert!(said.contains(says) && said.contains(HEADERS[1]), "{text}: {said}");
            assert!(!said.contains("s3cret"), "{said}");
        }
        let many = "a=b,".repeat(PAIRS_MAX + 1);
        assert!(said(&[(HEADERS[0], &many)]).contains("more than 64 pairs"));
    }

    #[test]
    fn a_token_goes_to_other_hosts_over_tls_alone() {
        let token = (HEADERS[1], "authorization=Bearer%20s3cret");
        for header in ["authorization=Bearer%20s3cret", "X-Api-Key=s3cret", "cookie=s3cret"] {
            let failure = of("http://lab.example:4318", &[(HEADERS[1], header)]).unwrap_err();
            let failure = failure.to_string();
            assert!(
                failure.contains("without encryption") && failure.contains("https://"),
                "{failure}"
            );
            assert!(!failure.contains("s3cret"), "{failure}");
        }
        for url in ["https://lab.example", "http://127.0.0.1:4318", "http://localhost:4318"] {
            assert!(of(url, &[token]).is_ok(), "{url}");
        }
        assert!(of("http://lab.example:4318", &[(HEADERS[1], "X-Scope-OrgID=7")]).is_ok());
    }

    #[test]
    fn times_have_limits() {
        for (name, text) in [
            (INTERVAL, "0"),
            (INTERVAL, "99"),
            (INTERVAL, "1s"),
            (INTERVAL, "-1"),
            (INTERVAL, "99999999999999999999"),
            (TIMEOUTS[0], "0"),
            (TIMEOUTS[1], "60001"),
        ] {
            let said = said(&[(name, text)]);
            assert!(said.contains("not a time in milliseconds") && said.contains(name), "{said}");
        }
    }
}
