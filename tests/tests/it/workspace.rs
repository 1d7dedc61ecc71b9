//! What cargo knows of this workspace: its packages, their dependencies and their licences.
//!
//! Asked for this machine's target only: what other systems would need is neither built nor shipped.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Every package that a build of the workspace uses.
pub struct Workspace {
    /// The repository.
    pub root: PathBuf,
    /// Packages of the workspace and all that they depend on.
    pub packages: Vec<Package>,
}

/// A package, here or from a registry.
pub struct Package {
    pub name: String,
    pub version: String,
    /// The SPDX expression of its manifest.
    pub licence: Option<String>,
    /// Whether it is one of this workspace.
    pub member: bool,
    /// Where its manifest lies.
    pub folder: PathBuf,
    pub dependencies: Vec<Dependency>,
}

/// A line of a manifest's tables of dependencies.
pub struct Dependency {
    pub name: String,
    pub kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Normal,
    Build,
    Dev,
}

impl Workspace {
    pub fn load() -> Self {
        // Cargo runs a test in its package's folder, and names itself in CARGO.
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = |arguments: &[&str]| {
            let output = Command::new(&cargo).args(arguments).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "cargo {}: {errors}", arguments.join(" "));
            String::from_utf8(output.stdout).unwrap()
        };
        let version = output(&["-vV"]);
        let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
        let options = ["--format-version=1", "--locked", "--filter-platform", host];
        let metadata = output(&[&["metadata"], &options[..]].concat());
        let metadata: Value = serde_json::from_str(&metadata).unwrap();

        let members = metadata["workspace_members"].as_array().unwrap();
        let packages = metadata["packages"].as_array().unwrap().iter();
        let workspace = Workspace {
            root: PathBuf::from(text(&metadata, "workspace_root")),
            packages: packages.map(|p| Package::read(p, members.contains(&p["id"]))).collect(),
        };
        assert!(workspace.members().count() > 1, "cargo metadata names no members");
        workspace
    }

    /// The packages of this workspace.
    pub fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.member)
    }

    /// A path as people write it, from the root of the repository.
    pub fn shown<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}

impl Package {
    fn read(package: &Value, member: bool) -> Self {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        Package {
            name: text(package, "name").to_owned(),
            version: text(package, "version").to_owned(),
            licence: package["license"].as_str().map(str::to_owned),
            member,
            folder: Path::new(text(package, "manifest_path")).parent().unwrap().to_owned(),
            dependencies: dependencies.map(Dependency::read).collect(),
        }
    }

    /// The short name of a package of this workspace: `meter` for `wirebeat-meter`.
    pub fn short(&self) -> &str {
        short(&self.name).unwrap_or(&self.name)
    }
}

impl Dependency {
    fn read(dependency: &Value) -> Self {
        let kind = match dependency["kind"].as_str() {
            None => Kind::Normal,
            Some("build") => Kind::Build,
            Some("dev") => Kind::Dev,
            Some(other) => panic!("cargo knows a new kind of dependency, '{other}'"),
        };
        Dependency { name: text(dependency, "name").to_owned(), kind }
    }
}

/// What follows `wirebeat-`, of the names that begin so.
pub fn short(name: &str) -> Option<&str> {
    name.strip_prefix("wirebeat-")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("cargo metadata has no '{key}'"))
}
