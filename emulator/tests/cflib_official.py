"""The official Python client and the official firmware on the virtual Crazyflie, held against the simulator's truth.

Usage: cflib_official.py udp://127.0.0.1:PORT CACHE_FOLDER TRUTH_CSV
Prints one line for each check; exit status 0 when everything was as expected.

The drone's clock is virtual, so everything is timed by the truth's timestamps.
"""

import sys
import time

import cflib
import cflib.crtp
from cflib.crazyflie import Crazyflie
from cflib.crazyflie.syncCrazyflie import SyncCrazyflie

GIVE_UP_S = 240
ALL_GOOD = True

uri, cache, truth_file = sys.argv[1:4]
cflib.crtp.init_drivers()


def truth():
    """Time in s, position in m and yaw in degrees, as the simulator has them now."""
    with open(truth_file) as file:
        lines = file.read().splitlines()
    # The last line may be half written.
    fields = [float(f) for f in lines[-2].split(",")]
    return fields[0] / 1e6, fields[1:4], fields[6] * 57.29577951308232


def pause(virtual_s):
    until, started = truth()[0] + virtual_s, time.monotonic()
    while truth()[0] < until:
        if time.monotonic() - started > GIVE_UP_S:
            sys.exit(f"no end after {GIVE_UP_S} s")
        time.sleep(0.05)


def check(what, good, found):
    global ALL_GOOD
    ALL_GOOD = ALL_GOOD and good
    print(f"{'ok  ' if good else 'FAIL'} {what}: {found}", flush=True)


def check_place(what, x, y, z, yaw_deg):
    _, position, yaw = truth()
    error = max(abs(a - b) for a, b in zip(position, (x, y, z)))
    turn = abs((yaw - yaw_deg + 180.0) % 360.0 - 180.0)
    place = ", ".join(f"{p:.3f}" for p in position)
    check(what, error < 0.12 and turn < 8.0, f"truth ({place}) m, yaw {yaw:.1f} deg, error {100 * error:.1f} cm")


with SyncCrazyflie(uri, cf=Crazyflie(rw_cache=cache)) as scf:
    cf = scf.cf
    logs = sum(len(group) for group in cf.log.toc.toc.values())
    params = sum(len(group) for group in cf.param.toc.toc.values())
    check("cflib reads both tables of contents", logs > 100 and params > 100, f"{logs} log variables, {params} parameters")
    cf.param.set_value("stabilizer.estimator", 2)
    cf.param.set_value("stabilizer.controller", 1)
    pause(3.0)
    if not cf.supervisor.is_armed:
        cf.supervisor.send_arming_request(True)
        pause(1.0)
    commander = cf.high_level_commander
    commander.takeoff(0.6, 2.0)
    pause(4.0)
    check_place("take-off", 0.0, 0.0, 0.6, 0.0)
    commander.go_to(0.5, -0.3, 0.8, 0.0, 2.5)
    pause(5.0)
    check_place("go-to", 0.5, -0.3, 0.8, 0.0)
    commander.go_to(0.5, -0.3, 0.8, 1.5707963, 2.5)
    pause(5.0)
    check_place("yaw of +90 degrees", 0.5, -0.3, 0.8, 90.0)
    commander.land(0.0, 2.5)
    pause(4.0)
    # Landing turns to its own yaw, which is 0.
    check_place("landing", 0.5, -0.3, 0.0, 0.0)
    commander.stop()

sys.exit(0 if ALL_GOOD else 1)
