//! `docs/parameters.md`: every parameter with its value at the first start.

use steady_common::value::Value;
use steady_firmware::services::Device;
use steady_firmware::settings::Settings;
use steady_firmware::telemetry::Telemetry;
use steady_firmware::toc::{PARAMS, View};

use super::{Table, section};

#[test]
fn parameters() {
    let (settings, telemetry, device) = (Settings::default(), Telemetry::default(), Device::default());
    let view = View { settings: &settings, telemetry: &telemetry, device: &device };
    let mut table = Table::new(&["parameter", "type", "at first", "can be kept"]);
    for param in PARAMS {
        let value = (param.get)(&view);
        let shown = match value {
            Value::F32(x) => x.to_string(),
            other => other.to_f64().to_string(),
        };
        let shown = if param.set.is_some() { shown } else { "read only".to_owned() };
        let kept = if param.persistent { "yes" } else { "" };
        table.row(&[&format!("`{}.{}`", param.group, param.name), &param.kind.name(), &shown, &kept]);
    }
    section("parameters.md", "parameters", &table.0);
}
