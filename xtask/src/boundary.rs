//! Rules about dependencies, checked on what cargo resolves. `deny.toml` has the licences for cargo-deny,
//! which is not needed for these.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::sh;

/// The only package that may link the engine below.
const GPL_PACKAGE: &str = "virtual-crazyflie";
/// GPL-2.0.
const GPL_ENGINE: &str = "unicorn-engine-sys";
/// One version each in the whole tree: large, or with types that pass between our crates.
const ONE_VERSION: &[&str] = &["clap", "crc", "csv", "flate2", "heapless", "object", "serde", "toml"];
/// Who may have an older version of its own, because its newest release asks for it and passes no type of it on.
const LATECOMERS: &[(&str, &str)] = &[("usb-device", "heapless")];

struct Graph {
    /// Name and version by id.
    names: BTreeMap<String, (String, String)>,
    members: Vec<String>,
    /// What each package is built from: id to ids, with whether that is for its tests only.
    edges: BTreeMap<String, Vec<(String, bool)>>,
}

fn graph() -> Graph {
    let text = sh::capture(sh::cargo().args(["metadata", "--format-version", "1", "--locked"])).unwrap();
    let metadata: Value = serde_json::from_str(&text).unwrap();
    let id = |value: &Value| value.as_str().unwrap().to_owned();
    let list = |value: &Value| value.as_array().unwrap().clone();
    let names = list(&metadata["packages"])
        .iter()
        .map(|package| (id(&package["id"]), (id(&package["name"]), id(&package["version"]))))
        .collect();
    let is_for_tests = |dep: &Value| list(&dep["dep_kinds"]).iter().all(|kind| kind["kind"] == "dev");
    let edges = list(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| {
            let deps = list(&node["deps"]);
            (id(&node["id"]), deps.iter().map(|dep| (id(&dep["pkg"]), is_for_tests(dep))).collect())
        })
        .collect();
    Graph { names, members: list(&metadata["workspace_members"]).iter().map(id).collect(), edges }
}

impl Graph {
    /// Everything that a package's library and programs are built from.
    fn reachable(&self, from: &str) -> BTreeSet<&str> {
        let (mut seen, mut queue) = (BTreeSet::new(), vec![from]);
        while let Some(next) = queue.pop() {
            for (to, is_for_tests) in &self.edges[next] {
                if !is_for_tests && seen.insert(to.as_str()) {
                    queue.push(to);
                }
            }
        }
        seen.into_iter().map(|id| self.names[id].0.as_str()).collect()
    }

    /// Versions of a package, but for those that only a latecomer uses.
    fn versions(&self, name: &str) -> Vec<&str> {
        let is_latecomer = |user: &str| LATECOMERS.contains(&(self.names[user].0.as_str(), name));
        let is_ours = |id: &str| {
            let mut users = self.edges.iter().filter(|(_, used)| used.iter().any(|(u, _)| u == id));
            users.any(|(user, _)| !is_latecomer(user))
        };
        let all = self.names.iter().filter(|(id, (n, _))| n == name && is_ours(id));
        all.map(|(_, (_, version))| version.as_str()).collect()
    }
}

#[test]
fn only_the_virtual_crazyflie_links_gpl_code() {
    let graph = graph();
    for member in &graph.members {
        let (name, reached) = (&graph.names[member].0, graph.reachable(member));
        if name == GPL_PACKAGE {
            assert!(reached.contains(GPL_ENGINE), "{GPL_ENGINE} has another name now; rename it here");
        } else {
            assert!(!reached.contains(GPL_ENGINE), "{name} links {GPL_ENGINE}, which is GPL-2.0");
            assert!(!reached.contains(GPL_PACKAGE), "{name} links {GPL_PACKAGE}, which is GPL-2.0");
        }
    }
}

#[test]
fn our_dependencies_have_one_version_each() {
    let graph = graph();
    for name in ONE_VERSION {
        let versions = graph.versions(name);
        assert_eq!(versions.len(), 1, "{name}: {versions:?}; `cargo tree --invert {name}@VERSION` shows who");
    }
    // No two members use a crate in two versions.
    let mut direct: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (id, _) in graph.members.iter().flat_map(|member| &graph.edges[member]) {
        let (name, version) = &graph.names[id];
        direct.entry(name).or_default().insert(version);
    }
    let twice: Vec<_> = direct.iter().filter(|(_, versions)| versions.len() > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
}
