//! `steady param`: a drone's parameters.

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::json;
use steady_common::value::Value;
use steady_radio::client::{Client, Param, describe, parse, show};
use steady_radio::{Error, printable};
use steady_sim::suggest::did_you_mean;

use super::drone::Address;
use crate::error::usage;

/// Show and change a drone's parameters.
#[derive(Debug, Args)]
pub(crate) struct Cmd {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print all parameters, or those whose name begins with a text.
    List {
        /// Beginning of the name, `ctrlMel` or `ctrlMel.kp`.
        #[arg(default_value = "")]
        beginning: String,
        /// Print JSON, one object per line.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        address: Address,
    },
    /// Print values.
    Get {
        /// Names, as group.name.
        #[arg(required = true)]
        names: Vec<String>,
        #[command(flatten)]
        address: Address,
    },
    /// Change values, as group.name=value; each is read back.
    Set {
        /// Names with values.
        #[arg(required = true, value_name = "NAME=VALUE")]
        changes: Vec<String>,
        /// Also keep them over a restart.
        #[arg(long)]
        store: bool,
        #[command(flatten)]
        address: Address,
    },
    /// Keep present values over a restart.
    Store {
        /// Names, as group.name.
        #[arg(required = true)]
        names: Vec<String>,
        #[command(flatten)]
        address: Address,
    },
}

impl Cmd {
    pub(crate) fn run(self) -> Result<()> {
        match self.verb {
            Verb::List { beginning, json, address } => list(&beginning, json, &address),
            Verb::Get { names, address } => {
                let mut client = address.connect()?;
                for name in names {
                    let param = find(&mut client, &name)?;
                    println!("{name} = {}", show(client.get(param)?));
                }
                Ok(())
            }
            Verb::Set { changes, store, address } => {
                let mut pairs = Vec::new();
                for change in &changes {
                    let Some((name, value)) = change.split_once('=') else {
                        return Err(usage(format!("`{change}` is not NAME=VALUE")));
                    };
                    pairs.push((name.trim(), value.trim()));
                }
                let mut client = address.connect()?;
                // All values are parsed before the first is changed.
                let mut ready: Vec<(&str, Param, Value)> = Vec::new();
                for (name, value) in pairs {
                    let param = find(&mut client, name)?;
                    let value = parse(value, param.kind).map_err(|why| anyhow::anyhow!("{name}: {why}"))?;
                    ready.push((name, param, value));
                }
                for (name, param, value) in ready {
                    client.set(name, param, value)?;
                    if store {
                        client.store(name, param)?;
                    }
                    println!("{name} = {}{}", show(value), if store { ", kept" } else { "" });
                }
                Ok(())
            }
            Verb::Store { names, address } => {
                let mut client = address.connect()?;
                for name in names {
                    let param = find(&mut client, &name)?;
                    client.store(&name, param)?;
                    println!("{name} = {}, kept", show(client.get(param)?));
                }
                Ok(())
            }
        }
    }
}

/// A parameter by its full name; an error has the nearest name there is.
fn find(client: &mut Client, name: &str) -> Result<Param> {
    match client.param(name) {
        Err(Error::NoParameter { name, advice }) => {
            let near = did_you_mean(&name, client.params()?.iter().map(|e| printable(&e.full_name())));
            Err(usage(format!("the drone has no parameter `{name}`{near}{advice}")))
        }
        found => Ok(found?),
    }
}

fn list(beginning: &str, as_json: bool, address: &Address) -> Result<()> {
    let mut client = address.connect()?;
    let entries: Vec<_> =
        client.params()?.iter().filter(|e| e.full_name().starts_with(beginning)).cloned().collect();
    let params: Vec<Param> = entries.iter().map(describe).collect::<Result<_, _>>()?;
    let values = client.values(&params, &mut |_| {})?;
    for ((entry, param), value) in entries.iter().zip(&params).zip(values) {
        let name = printable(&entry.full_name());
        if as_json {
            println!(
                "{}",
                json!({
                    "name": name,
                    "type": param.kind.name(),
                    "value": value.to_f64(),
                    "is_read_only": param.is_read_only,
                    "may_be_kept": param.may_be_kept,
                })
            );
        } else {
            let access = match (param.is_read_only, param.may_be_kept) {
                (true, _) => "read only",
                (_, true) => "can be kept",
                _ => "",
            };
            println!("{:<26} {:>12} {:<4} {access}", name, show(value), param.kind.name());
        }
    }
    if entries.is_empty() {
        return Err(usage(format!("no parameter begins with `{beginning}`; `steady param list` shows all")));
    }
    Ok(())
}
