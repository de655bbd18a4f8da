"""doubtful_locks: whether locks of a folder's file system might hold within one host only, by Linux's list of mounts.

`flock` succeeds on many file systems that several hosts share without telling the other hosts. NFS passes locks on,
unless it was mounted with nolock or local_lock; Lustre with the option flock does; local disks have one host. Others
(sshfs, object storage as a folder, BeeGFS, 9p) do or do not by settings that cannot be seen from here.
"""

from __future__ import annotations

import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
HOLD = "apfs bcachefs btrfs ceph erofs ext2 ext3 ext4 f2fs gfs2 gpfs jfs ntfs3 ocfs2 overlay ramfs tmpfs xfs zfs"


def doubtful_locks(folder: Path) -> str | None:
    """The file system of a folder, in words, if another host might not see its locks; None if all do, or have to be
    trusted: where the system lists no mounts.
    """
    try:
        lines = MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return None
    place, found = folder.resolve(), ("", "", 0)
    for line in lines:
        mounted, _, source = line.partition(" - ")
        fields, kind = mounted.split(), source.split()
        if len(fields) < 6 or len(kind) < 3:
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4]))
        if (
            place.is_relative_to(point) and len(point.parts) >= found[2]
        ):  # of two at one place, the later hides the other
            found = kind[0], f"{fields[5]},{kind[2]}", len(point.parts)
    kind_name, options = found[0], found[1].split(",")
    if not kind_name or kind_name in HOLD.split():
        return None
    if kind_name in ("nfs", "nfs4"):
        local = [x for x in options if x in ("nolock", "local_lock=flock", "local_lock=all")]
        return f"{kind_name} with {local[0]}" if local else None
    return None if kind_name == "lustre" and "flock" in options else kind_name
