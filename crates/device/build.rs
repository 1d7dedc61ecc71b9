//! Compiles the device's program with clang and generates its Rust skeleton.

use std::ffi::OsString;
use std::path::PathBuf;
use std::{env, process};

use libbpf_cargo::SkeletonBuilder;

const SOURCE: &str = "src/device.bpf.c";

fn main() {
    println!("cargo:rerun-if-changed={SOURCE}");
    let out = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    // Debian keeps <asm/types.h> in the directory of the architecture, where clang's BPF target does not look
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let headers = format!("/usr/include/{arch}-linux-gnu");
    let arguments = ["-O2", "-Wall", "-Werror", "-mcpu=v3", "-I", &headers].map(OsString::from);
    let built = SkeletonBuilder::new()
        .source(SOURCE)
        .clang_args(arguments)
        .build_and_generate(out.join("device.skel.rs"));
    if let Err(error) = built {
        eprintln!("cannot compile {SOURCE}: {error:#}");
        process::exit(1);
    }
}
