//! Units of log variables and column names that carry them.

use steady_common::{inputs_record, transition};

/// Units of the official firmware's variables, by name or by prefix with `*`; the first match counts.
const OFFICIAL: &[(&str, &str)] = &[
    ("stateEstimate.x", "m"),
    ("stateEstimate.y", "m"),
    ("stateEstimate.z", "m"),
    ("stateEstimate.v*", "m/s"),
    ("stateEstimate.a*", "g"),
    ("stateEstimate.roll", "deg"),
    ("stateEstimate.pitch", "deg"),
    ("stateEstimate.yaw", "deg"),
    ("stateEstimateZ.rate*", "mrad/s"),
    ("stateEstimateZ.v*", "mm/s"),
    ("stateEstimateZ.a*", "mm/s2"),
    ("stateEstimateZ.x", "mm"),
    ("stateEstimateZ.y", "mm"),
    ("stateEstimateZ.z", "mm"),
    ("stabilizer.roll", "deg"),
    ("stabilizer.pitch", "deg"),
    ("stabilizer.yaw", "deg"),
    ("stabilizer.thrust", "1/65535"),
    ("ctrltarget.x", "m"),
    ("ctrltarget.y", "m"),
    ("ctrltarget.z", "m"),
    ("ctrltarget.v*", "m/s"),
    ("ctrltarget.a*", "m/s2"),
    ("ctrltarget.roll", "deg"),
    ("ctrltarget.pitch", "deg"),
    ("ctrltarget.yaw", "deg"),
    ("ctrlMel.pos_error_*", "m"),
    ("controller.roll", "deg"),
    ("controller.pitch", "deg"),
    ("controller.yaw", "deg"),
    ("gyro.*", "deg/s"),
    ("acc.*", "g"),
    ("baro.asl", "m"),
    ("baro.temp", "degC"),
    ("baro.pressure", "mbar"),
    ("motor.m*", "1/65535"),
    ("pm.vbatMV", "mV"),
    ("pm.vbat", "V"),
    ("pm.batteryLevel", "percent"),
    ("ext_pos.*", "m"),
    ("locSrv.x", "m"),
    ("locSrv.y", "m"),
    ("locSrv.z", "m"),
    ("range.*", "mm"),
    ("kalman.varP*", "m2"),
    ("steady.mocapAge", "ms"),
    ("steady.longestGap", "us"),
];

/// The unit of a variable; empty for counts, codes, ratios and unknown variables.
#[must_use]
pub fn unit(event: &str, variable: &str) -> &'static str {
    // All variables of the event `transition` are ours; elsewhere those of our own group are.
    if (event == transition::EVENT_NAME || variable.starts_with("steady."))
        && let Some(field) = transition::FIELDS.iter().find(|f| f.name == variable)
    {
        return field.unit;
    }
    let inputs = match event {
        inputs_record::IMU_EVENT => &inputs_record::IMU_FIELDS[..],
        inputs_record::MOCAP_EVENT => &inputs_record::MOCAP_FIELDS,
        _ => &[],
    };
    if let Some(field) = inputs.iter().find(|f| f.name == variable) {
        return field.unit;
    }
    let matches = |pattern: &str| match pattern.strip_suffix('*') {
        Some(prefix) => variable.starts_with(prefix),
        None => variable == pattern,
    };
    OFFICIAL.iter().find(|(pattern, _)| matches(pattern)).map_or("", |(_, unit)| unit)
}

/// The name of a column: the variable's with its unit, `stateEstimate.vx_m_s` for m/s.
#[must_use]
pub fn column_name(variable: &str, unit: &str) -> String {
    match unit {
        "" => variable.to_owned(),
        "1/65535" => format!("{variable}_of_65535"),
        _ => format!("{variable}_{}", unit.replace(['/', ' '], "_")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_carry_their_units() {
        let name = |event, variable| column_name(variable, unit(event, variable));
        assert_eq!(name("transition", "stateEstimate.vx"), "stateEstimate.vx_m_s");
        assert_eq!(name("transition", "steady.dVelX"), "steady.dVelX_m_s2");
        assert_eq!(name("transition", "steady.iPosX"), "steady.iPosX_m_s");
        assert_eq!(name("fixedFrequency", "motor.m1req"), "motor.m1req_of_65535");
        assert_eq!(name("fixedFrequency", "stateEstimateZ.rateRoll"), "stateEstimateZ.rateRoll_mrad_s");
        assert_eq!(name("fixedFrequency", "pm.vbat"), "pm.vbat_V");
        assert_eq!(name("fixedFrequency", "stateEstimate.qx"), "stateEstimate.qx");
        assert_eq!(name("fixedFrequency", "steady.rateX"), "steady.rateX_rad_s");
        assert_eq!(name("fixedFrequency", "steady.mocapAge"), "steady.mocapAge_ms");
        assert_eq!(name("estTDOA", "idA"), "idA");
    }
}
