"""The official Python client against the virtual Crazyflie: TOCs, parameters, a log stream, a flight.

Usage: cflib_flight.py udp://127.0.0.1:PORT CACHE_FOLDER
Prints one JSON object; exit status 0 when everything was as expected.
"""

import json
import sys
import threading
import time

import cflib.crtp
from cflib.crazyflie import Crazyflie
from cflib.crazyflie.log import LogConfig
from cflib.crazyflie.syncCrazyflie import SyncCrazyflie

uri, cache = sys.argv[1], sys.argv[2]
cflib.crtp.init_drivers()
found = {}
samples = []
heights = []


def on_log(timestamp, data, _config):
    samples.append(timestamp)
    heights.append(data["stateEstimate.z"])


with SyncCrazyflie(uri, cf=Crazyflie(rw_cache=cache)) as scf:
    cf = scf.cf
    found["log_variables"] = sum(len(group) for group in cf.log.toc.toc.values())
    found["parameters"] = sum(len(group) for group in cf.param.toc.toc.values())

    changed = threading.Event()
    cf.param.add_update_callback(group="ctrlMel", name="kp_xy", cb=lambda _n, _v: changed.set())
    before = cf.param.get_value("ctrlMel.kp_xy")
    changed.clear()
    cf.param.set_value("ctrlMel.kp_xy", 0.45)
    found["parameter_confirmed"] = changed.wait(5)
    found["parameter"] = float(cf.param.get_value("ctrlMel.kp_xy"))
    cf.param.set_value("ctrlMel.kp_xy", before)

    config = LogConfig(name="state", period_in_ms=10)
    for axis in "xyz":
        config.add_variable("stateEstimate." + axis, "float")
    cf.log.add_config(config)
    config.data_received_cb.add_callback(on_log)
    config.start()

    # Motion capture has to be seen and the gyroscope to be calibrated before it can be armed.
    deadline = time.time() + 20
    armed = False
    while time.time() < deadline and not armed:
        cf.supervisor.send_arming_request(True)
        time.sleep(0.3)
        armed = cf.supervisor.is_armed
    found["armed"] = armed
    commander = cf.high_level_commander
    commander.takeoff(0.6, 2.0)
    time.sleep(3.0)
    found["height_in_the_air"] = heights[-1] if heights else None
    commander.land(0.0, 2.0)
    time.sleep(3.0)
    found["height_on_the_floor"] = heights[-1] if heights else None
    commander.stop()
    config.stop()

spacing = [b - a for a, b in zip(samples, samples[1:])]
found["log_samples"] = len(samples)
found["log_mean_period_ms"] = sum(spacing) / len(spacing) if spacing else None
good = (
    found["log_variables"] > 50
    and found["parameters"] > 50
    and abs(found["parameter"] - 0.45) < 1e-6
    and found["armed"]
    and found["height_in_the_air"] is not None
    and abs(found["height_in_the_air"] - 0.6) < 0.1
    and abs(found["height_on_the_floor"]) < 0.1
    and found["log_mean_period_ms"] is not None
    and 9 <= found["log_mean_period_ms"] <= 12
)
found["good"] = good
print(json.dumps(found))
sys.exit(0 if good else 1)
