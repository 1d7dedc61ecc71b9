//! How distributions are written and read.

use super::*;

fn refused(text: &str) -> String {
    let distribution = serde_saphyr::from_str_with_options::<Distribution<Nanos>>(
        text,
        crate::scenario::yaml::options(),
    );
    match distribution.expect_err(text).without_snippet() {
        serde_saphyr::Error::Message { msg, .. } => {
            wirebeat_units::Fault::unpacked(msg).to_string()
        }
        other => other.to_string(),
    }
}

#[test]
fn laws_are_read_as_words_or_with_parameters() {
    assert_eq!(
        distribution::<Nanos>("exponential"),
        Distribution::Exponential(exponential::Exponential { mean: None })
    );
    assert_eq!(distribution::<Nanos>("exponential: {}"), distribution("exponential"));
    assert_eq!(
        distribution::<Nanos>("{ normal: { deviation: 25% } }"),
        Distribution::Normal(normal::Normal { mean: None, deviation: Deviation::Percent(25.0) })
    );
    assert_eq!(
        distribution::<Bytes>("normal:\n  mean: 500B\n  deviation: 100B\n"),
        Distribution::Normal(normal::Normal {
            mean: Some(Bytes::new(500)),
            deviation: Deviation::Amount(Bytes::new(100)),
        })
    );
    let json = r#"{"pareto":{"shape":2.5,"scale":"2us"}}"#;
    assert_eq!(serde_json::from_str::<Distribution<Nanos>>(json).unwrap(), distribution(json));
    assert_eq!(
        serde_json::from_str::<Distribution<Nanos>>("\"poisson-distributed\"").unwrap(),
        distribution("poisson-distributed")
    );
}

#[test]
fn mistakes_are_named() {
    for (text, expected) in [
        ("exponentail", "exponentail"),
        ("gama: { shape: 2 }", "gama"),
        ("gamma", "'gamma' needs parameters, as in 'gamma: { … }': missing field `shape`"),
        ("log-normal", "'log-normal' needs parameters, as in 'log-normal: { … }': how wide"),
        ("gamma: { shape: 2, scale: 5 }", "'5' is not a time: it has no unit"),
        ("gamma: { shape: 2, rate: 5 }", "rate"),
        (
            "{ gamma: { shape: 2 }, poisson-distributed: {} }",
            "only one distribution may stand here",
        ),
        ("{}", "a distribution is missing here; write for example exponential"),
        ("[gamma]", "a distribution, such as exponential"),
        ("5", "a distribution, such as exponential"),
        ("normal: { deviation: 5 }", "it has no unit"),
        ("normal: { deviation: x% }", "this is not a share of the mean; write for example 25%"),
        ("normal: { deviation: 5 furlongs }", "or a share of the mean, such as 25%"),
    ] {
        assert!(refused(text).contains(expected), "{text}: {}", refused(text));
    }
}

#[test]
fn parameters_that_cannot_be_meant_are_named_with_their_key() {
    for (text, key, expected) in [
        ("uniform: { min: 2us, max: 1us }", "max", "1us is below 'min', which is 2us"),
        (
            "exponential: { mean: 0 }",
            "mean",
            "it is 0, and must be above 0; for a value that does not vary, use no distribution",
        ),
        ("pareto: { shape: 0 }", "shape", "it is 0, and goes from 0.01 to 1000000"),
        ("gamma: { shape: .nan }", "shape", "it is NaN, and goes from 0.01 to 1000000"),
        ("weibull: { shape: .inf }", "shape", "it is inf, and goes from 0.01 to 1000000"),
        (
            "gamma: { shape: 1, scale: 0s }",
            "scale",
            "it is 0, and must be above 0; for a value that does not vary, use no distribution",
        ),
        (
            "cauchy: { location: 1us, scale: 0s }",
            "scale",
            "it is 0, and must be above 0; for a value that does not vary, use no distribution",
        ),
        (
            "normal: { deviation: -5% }",
            "deviation",
            "it is -5, and must be above 0; for a value that does not vary, use no distribution",
        ),
        (
            "normal: { deviation: NaN% }",
            "deviation",
            "it is NaN, and must be above 0; for a value that does not vary, use no distribution",
        ),
        (
            "log-normal: { mean: 1us }",
            "deviation",
            "how wide the distribution is, is missing; give this or 'sigma'",
        ),
        (
            "log-normal: { sigma: 1, deviation: 5% }",
            "sigma",
            "'deviation' says it too; give one of the two",
        ),
        (
            "log-normal: { mu: 1, deviation: 5% }",
            "mu",
            "it goes with 'sigma'; with 'deviation' give 'mean'",
        ),
        (
            "log-normal: { mu: 1, mean: 1us, sigma: 1 }",
            "mu",
            "'mean' says it too; give one of the two",
        ),
        ("log-normal: { mu: 50, sigma: 1 }", "mu", "it is 50, and goes from -44 to 44"),
        ("log-normal: { mu: 5, sigma: 21 }", "sigma", "it is at most 20"),
    ] {
        let (at, why) = distribution::<Nanos>(text).check().unwrap_err();
        assert_eq!((at, why.to_string().as_str()), (key, expected), "{text}");
    }
}

#[test]
fn what_is_written_back_is_short() {
    let rewritten = |text: &str| serde_saphyr::to_string(&distribution::<Nanos>(text)).unwrap();
    assert_eq!(rewritten("exponential: {}"), "exponential\n");
    assert_eq!(
        rewritten("poisson-distributed: { mean: 1000ns }"),
        "poisson-distributed:\n  mean: 1us\n"
    );
    assert_eq!(rewritten("normal: { deviation: 12.50% }"), "normal:\n  deviation: 12.5%\n");
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_law_survives_writing_and_reading(distribution in any_distribution()) {
        prop_assume!(distribution.check().is_ok());
        let yaml = serde_saphyr::to_string(&distribution).unwrap();
        let read = serde_saphyr::from_str_with_options(&yaml, crate::scenario::yaml::options());
        prop_assert_eq!(read.ok(), Some(distribution), "{}", yaml);
    }
}

#[test]
fn the_schema_knows_every_law_and_which_may_be_words() {
    let schema = schemars::schema_for!(Distribution<Nanos>).to_value();
    let distributions = schema["anyOf"].as_array().unwrap();
    let words: Vec<_> =
        distributions.iter().filter_map(|distribution| distribution["const"].as_str()).collect();
    assert_eq!(words, ["exponential", "poisson-distributed"]);
    let keys: Vec<_> = distributions
        .iter()
        .filter_map(|distribution| distribution["required"][0].as_str())
        .collect();
    assert_eq!(keys, Distribution::<Nanos>::NAMES);
    let gamma =
        distributions.iter().find(|distribution| distribution["required"][0] == "gamma").unwrap();
    assert_eq!(gamma["description"], "Gamma; of a whole shape, Erlang.");
    let parameters = &gamma["properties"]["gamma"];
    assert_eq!(parameters["required"], serde_json::json!(["shape"]));
    assert_eq!(parameters["additionalProperties"], false);
    // Times and sizes are different types of the schema.
    let text = |schema: schemars::Schema| schema.to_value().to_string();
    assert!(text(schemars::schema_for!(Distribution<Nanos>)).contains("#/$defs/time"));
    assert!(text(schemars::schema_for!(Distribution<Bytes>)).contains("#/$defs/bytes"));
    assert!(!text(schemars::schema_for!(Distribution<Bytes>)).contains("#/$defs/time"));
}
