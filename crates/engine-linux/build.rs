//! Compiles the kernel programs with clang and generates their Rust skeletons, and the constants of their header.

use std::ffi::OsString;
use std::path::PathBuf;
use std::{env, fs, process};

use libbpf_cargo::SkeletonBuilder;

fn main() {
    println!("cargo:rerun-if-changed=../../bpf");
    let Some(out) = env::var_os("OUT_DIR").map(PathBuf::from) else {
        fail("OUT_DIR is not set; build with cargo");
    };
    let header = "../../bpf/wirebeat.h";
    let written = fs::read_to_string(header)
        .map(|text| constants(&text))
        .and_then(|constants| fs::write(out.join("constants.rs"), constants));
    if let Err(error) = written {
        fail(&format!("cannot take the constants of {header}: {error}"));
    }
    for program in ["transmit", "receive", "accepted", "bare", "steer", "steer_metadata", "station"]
    {
        let source = format!("../../bpf/{program}.bpf.c");
        let built = SkeletonBuilder::new()
            .source(&source)
            .clang_args(arguments())
            .build_and_generate(out.join(format!("{program}.skel.rs")));
        if let Err(error) = built {
            fail(&format!(
                "cannot compile {source}: {error:#}\n\
                 The kernel programs need clang (11 or newer), and the headers of linux-libc-dev; \
                 on Debian and Ubuntu: apt install clang llvm libelf-dev zlib1g-dev linux-libc-dev"
            ));
        }
    }
}

/// The whole numbers that the header gives names to, as `#define WB_NAME 7` or `WB_NAME = 7,`: BTF has none of them.
fn constants(header: &str) -> String {
    let number = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().take(3).collect();
        let (name, value) = match words[..] {
            ["#define", name, value] => (name, value),
            [name, "=", value] => (name, value),
            _ => return None,
        };
        let value: u32 = value.trim_end_matches(',').parse().ok()?;
        name.starts_with("WB_").then(|| format!("pub(crate) const {name}: u32 = {value};\n"))
    };
    header.lines().filter_map(number).collect()
}

fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> =
        ["-O2", "-Wall", "-Werror", "-mcpu=v3"].map(Into::into).into();
    // of the registers that a tracing program finds its arguments in
    let arch = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("aarch64") => "arm64",
        Ok("riscv64") => "riscv",
        Ok("powerpc64") => "powerpc",
        Ok("s390x") => "s390",
        _ => "x86",
    };
    arguments.push(format!("-D__TARGET_ARCH_{arch}").into());
    // Debian keeps <asm/types.h> in the directory of the architecture, where clang's BPF target does
    // not look.
    for arch in ["x86_64", "aarch64", "riscv64", "powerpc64le", "s390x"] {
        let dir = format!("/usr/include/{arch}-linux-gnu");
        if arch == env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default()
            || (arch == "powerpc64le"
                && env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("powerpc64"))
        {
            arguments.push("-I".into());
            arguments.push(dir.into());
        }
    }
    arguments
}

fn fail(message: &str) -> ! {
    eprintln!("{message}");
    process::exit(1)
}
