# Takes headers and CPU libraries out of the wheels: unpack.py WHEELS DESTINATION
import os
import shutil
import sys
import zipfile

source, destination = sys.argv[1:]
libraries = {"libtorch_cpu.so", "libc10.so", "libgomp.so.1", "libcupti.so.13", "libcudart.so.13"}
missing = set(libraries)


def place(name):
    """Where a member of a wheel goes, or None."""
    base = os.path.basename(name)
    if name.startswith("torch/include/") and base:
        return name[len("torch/"):]
    if base in libraries and os.path.basename(os.path.dirname(name)) == "lib":
        missing.discard(base)
        return "lib/" + base
    # Licences go with what they are about.
    package, _, rest = name.partition(".dist-info/licenses/")
    if rest and base and package.count("/") == 0:
        return os.path.join("licenses", package, rest)
    return None


for wheel in sorted(os.listdir(source)):
    with zipfile.ZipFile(os.path.join(source, wheel)) as archive:
        for name in archive.namelist():
            target = place(name)
            if target is None:
                continue
            target = os.path.join(destination, target)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with archive.open(name) as member, open(target, "wb") as file:
                shutil.copyfileobj(member, file, 1 << 20)

if missing:
    sys.exit("the wheels lack " + ", ".join(sorted(missing)))
