//! Compiles the kernel programs with clang and generates their Rust skeletons.

use std::ffi::OsString;
use std::path::PathBuf;
use std::{env, process};

use libbpf_cargo::SkeletonBuilder;

fn main() {
    println!("cargo:rerun-if-changed=../../bpf");
    let Some(out) = env::var_os("OUT_DIR").map(PathBuf::from) else {
        fail("OUT_DIR is not set; build with cargo");
    };
    for program in ["transmit", "receive", "accepted", "bare"] {
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
