"""The official Python client against the virtual Crazyflie: TOCs, parameters, radio settings in the EEPROM,
a log stream, a flight.

Usage: cflib_flight.py udp://127.0.0.1:PORT CACHE_FOLDER
Prints one JSON object; exit status 0 when everything was as expected.

The drone's clock is virtual and may be slower than the wall's on a busy machine, so flights are timed by
the timestamps of the log stream. Wall-clock limits only end a test that hangs.
"""

import json
import sys
import threading
import time

import cflib
import cflib.crtp
from cflib.crazyflie import Crazyflie
from cflib.crazyflie.log import LogConfig
from cflib.crazyflie.mem import MemoryElement
from cflib.crazyflie.syncCrazyflie import SyncCrazyflie

GIVE_UP_S = 240

uri, cache = sys.argv[1], sys.argv[2]
cflib.crtp.init_drivers()
found = {}
samples = []
heights = []
arrived = threading.Condition()


def on_log(timestamp, data, _config):
    with arrived:
        samples.append(timestamp)
        heights.append(data["stateEstimate.z"])
        arrived.notify_all()


def wait(condition, virtual_s):
    """Waits until the condition holds, for so long by the drone's clock; true when it does."""
    started = time.monotonic()
    with arrived:
        arrived.wait_for(lambda: samples, GIVE_UP_S)
        if not samples:
            return False
        first = samples[-1]
        while samples[-1] - first < 1000 * virtual_s:
            if condition():
                return True
            if time.monotonic() - started > GIVE_UP_S:
                sys.exit(f"no end after {GIVE_UP_S} s: {json.dumps(found)}")
            arrived.wait(1.0)
    return condition()


def pause(virtual_s):
    wait(lambda: False, virtual_s)


def set_and_read_back(cf, name, value):
    """Sets a parameter, waits for the drone's answer, then asks it again."""
    group, short = name.split(".")
    heard = threading.Event()
    cf.param.add_update_callback(group=group, name=short, cb=lambda _n, _v: heard.set())
    cf.param.set_value(name, value)
    confirmed = heard.wait(GIVE_UP_S)
    heard.clear()
    cf.param.request_param_update(name)
    return confirmed and heard.wait(GIVE_UP_S) and abs(float(cf.param.get_value(name)) - value) < 1e-6


def read_eeprom(memory):
    """Radio settings and trims, as the client's window for them reads them."""
    heard = threading.Event()
    memory.update(lambda _memory: heard.set())
    heard.wait(GIVE_UP_S)
    return dict(memory.elements) if memory.valid else None


def write_eeprom(memory, **changes):
    """Changes some of them, and reads them anew; true when they are there."""
    wanted = {**memory.elements, **changes}
    memory.elements.update(changes)
    heard = threading.Event()
    memory.write_data(lambda _memory, _address: heard.set())
    heard.wait(GIVE_UP_S)
    return read_eeprom(memory) == wanted


with SyncCrazyflie(uri, cf=Crazyflie(rw_cache=cache)) as scf:
    cf = scf.cf
    found["log_variables"] = sum(len(group) for group in cf.log.toc.toc.values())
    found["parameters"] = sum(len(group) for group in cf.param.toc.toc.values())
    found["float_parameter"] = set_and_read_back(cf, "ctrlMel.kp_xy", 0.45)
    found["integer_parameter"] = set_and_read_back(cf, "steady.noiseHold", 40)

    eeprom = cf.mem.get_mems(MemoryElement.TYPE_I2C)[0]
    found["eeprom"] = read_eeprom(eeprom)
    found["eeprom_written"] = write_eeprom(
        eeprom, radio_channel=97, radio_speed=1, radio_address=0xE7E7E7E705, roll_trim=0.5, pitch_trim=-0.25
    )

    config = LogConfig(name="state", period_in_ms=10)
    for axis in "xyz":
        config.add_variable("stateEstimate." + axis, "float")
    cf.log.add_config(config)
    config.data_received_cb.add_callback(on_log)
    config.start()

    # Motion capture has to be seen and the gyroscope to be calibrated before it can be armed.
    found["armed"] = False
    for _ in range(40):
        cf.supervisor.send_arming_request(True)
        pause(0.3)
        if cf.supervisor.is_armed:
            found["armed"] = True
            break
    before = len(samples)
    commander = cf.high_level_commander
    commander.takeoff(0.6, 2.0)
    found["took_off"] = wait(lambda: abs(heights[-1] - 0.6) < 0.05, 10)
    pause(1.0)
    found["height_in_the_air"] = heights[-1]
    commander.land(0.0, 2.0)
    found["landed"] = wait(lambda: heights[-1] < 0.05, 10)
    pause(1.0)
    found["height_on_the_floor"] = heights[-1]
    commander.stop()
    stream = samples[before:]
    config.stop()

spacing = [b - a for a, b in zip(stream, stream[1:])]
found["log_samples"] = len(stream)
found["log_mean_period_ms"] = sum(spacing) / len(spacing) if spacing else None
good = (
    found["log_variables"] > 50
    and found["parameters"] > 50
    and found["float_parameter"]
    and found["integer_parameter"]
    and found["eeprom"] is not None
    and found["eeprom"]["radio_channel"] == 80
    and found["eeprom_written"]
    and found["armed"]
    and found["took_off"]
    and abs(found["height_in_the_air"] - 0.6) < 0.1
    and found["landed"]
    and abs(found["height_on_the_floor"]) < 0.1
    and found["log_mean_period_ms"] is not None
    and 9.9 <= found["log_mean_period_ms"] <= 11
)
found["good"] = good
print(json.dumps(found))
sys.exit(0 if good else 1)
