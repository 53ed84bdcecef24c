"""The official Python client's bootloader code against the virtual Crazyflie, over UDP.

Usage: cflib_bootloader.py udp://127.0.0.1:PORT TABLE.bin SEQUENCE CACHE_FOLDER [FIRMWARE.zip]

Enters the bootloader as the client does (warm boot), reads and writes flash pages with the client's own
`Cloader`, flashes a gain table in the documented page layout, optionally a firmware package with
`Bootloader.flash`, restarts, connects, and asks which table flies. Prints one JSON object.
"""

import json
import sys
import time

import cflib.crtp
from cflib.bootloader import Bootloader, Target
from cflib.bootloader.boottypes import TargetTypes
from cflib.crazyflie import Crazyflie
from cflib.crazyflie.log import LogConfig
from cflib.crazyflie.syncCrazyflie import SyncCrazyflie
from cflib.crazyflie.syncLogger import SyncLogger
from cflib.crtp.udpdriver import UdpDriver

uri, table_file, sequence, cache = sys.argv[1:5]
firmware = sys.argv[5] if len(sys.argv) > 5 else None
FIRST_TABLE_PAGE = 768
found = {}
cflib.crtp.init_drivers()


class OverUdp(UdpDriver):
    """Whatever radio address the bootloader has, its packets go to the one virtual drone."""

    def connect(self, _uri, statistics_callback, error_callback):
        super().connect(uri, statistics_callback, error_callback)

    def send_packet(self, pk):
        """A dongle sends about a thousand packets a second; a burst of datagrams would be dropped."""
        super().send_packet(pk)
        time.sleep(0.001)


def get_link_driver(_uri, statistics_callback=None, error_callback=None):
    link = OverUdp()
    link.connect(_uri, statistics_callback, error_callback)
    return link


original_driver = cflib.crtp.get_link_driver
cflib.crtp.get_link_driver = get_link_driver

loader = Bootloader(uri)
assert loader.start_bootloader(warm_boot=True), "the bootloader does not answer"
stm32 = loader.get_target(TargetTypes.STM32)
nrf51 = loader.get_target(TargetTypes.NRF51)
found["stm32"] = [stm32.page_size, stm32.buffer_pages, stm32.flash_pages, stm32.start_page]
found["nrf51_start_page"] = nrf51.start_page
assert found["stm32"] == [1024, 10, 1024, 16], found
assert loader.protocol_version == 0x10

if firmware:
    started = time.time()
    loader.flash(firmware, [Target("cf2", "stm32", "fw", [], [])])
    found["firmware_s"] = round(time.time() - started, 1)

cload = loader._cload
with open(table_file, "rb") as file:
    table = file.read()
assert len(table) == 1024
# The first page of the area erases its sector: there is no table yet.
cload.upload_buffer(TargetTypes.STM32, 0, 0, table)
assert cload.write_flash(TargetTypes.STM32, 0, FIRST_TABLE_PAGE, 1), cload.error_code
back = cload.read_flash(TargetTypes.STM32, FIRST_TABLE_PAGE)
assert bytes(back) == table, "what was read back is not what was written"
assert bytes(cload.read_flash(TargetTypes.STM32, FIRST_TABLE_PAGE + 1)) == b"\xff" * 1024
# Its own pages are refused.
assert not cload.write_flash(TargetTypes.STM32, 0, 3, 1)
found["refused_with"] = cload.error_code
assert loader.reset_to_firmware()
loader.close()

cflib.crtp.get_link_driver = original_driver
with SyncCrazyflie(uri, cf=Crazyflie(rw_cache=cache)) as scf:
    config = LogConfig(name="table", period_in_ms=100)
    config.add_variable("steady.table", "uint32_t")
    config.add_variable("steady.seq", "uint32_t")
    with SyncLogger(scf, config) as logger:
        deadline = time.time() + 20
        for _, data, _ in logger:
            if data["steady.seq"] > 0 or time.time() > deadline:
                found["active_table"] = data["steady.table"]
                break

assert found["active_table"] == int(sequence), found
print(json.dumps(found))
