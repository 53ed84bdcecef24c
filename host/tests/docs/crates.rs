//! `docs/architecture.md`: which crate depends on which.

use std::collections::BTreeMap;
use std::fs;

use super::{Table, root, section};

#[test]
fn dependencies() {
    let workspace: toml::Table =
        toml::from_str(&fs::read_to_string(root().join("Cargo.toml")).unwrap()).unwrap();
    let members: Vec<&str> =
        workspace["workspace"]["members"].as_array().unwrap().iter().map(|m| m.as_str().unwrap()).collect();
    let manifests: BTreeMap<&str, toml::Table> = members
        .iter()
        .map(|member| {
            let text = fs::read_to_string(root().join(member).join("Cargo.toml")).unwrap();
            (*member, toml::from_str(&text).unwrap())
        })
        .collect();
    let package = |manifest: &toml::Table, key: &str| {
        manifest["package"].get(key).and_then(|v| v.as_str()).unwrap_or_default().to_owned()
    };
    let folders: BTreeMap<String, &str> =
        manifests.iter().map(|(folder, manifest)| (package(manifest, "name"), *folder)).collect();
    let mut table = Table::new(&["folder", "package", "depends on", "its tests also on"]);
    for member in members {
        let manifest = &manifests[member];
        let ours = |key: &str| {
            let found = manifest.get(key).and_then(|d| d.as_table()).into_iter().flat_map(|d| d.keys());
            let found: Vec<&str> = found.filter_map(|name| folders.get(name)).copied().collect();
            found.iter().map(|folder| format!("`{folder}`")).collect::<Vec<_>>().join(", ")
        };
        let name = format!("`{}`", package(manifest, "name"));
        table.row(&[&format!("`{member}`"), &name, &ours("dependencies"), &ours("dev-dependencies")]);
    }
    section("architecture.md", "crates", &table.0);
}
