"""Downloads datasets from TU, with pooch."""

from __future__ import annotations

from pathlib import Path

from lcpool.data.checks import DatasetError
from lcpool.data.tu_files import check_archive

TU_URL = "https://www.chrsmrrs.com/graphkerneldatasets"
RETRIES = 2
CHUNK = 1 << 16


def download(name: str, folder: Path) -> Path:
    """Download ``NAME.zip`` into ``folder``; only a complete and undamaged zip is put there."""
    file, url = f"{name}.zip", f"{TU_URL}/{name}.zip"
    by_hand = f"or put {url} into {folder} by hand."
    try:
        import pooch
        import requests
    except ModuleNotFoundError as error:
        raise DatasetError(
            f"{name}: not found on this machine, and a download needs '{error.name}': "
            f"pip install 'lcpool[lab]', {by_hand}"
        ) from error

    def fetch(url: str, temporary: str, _: object) -> None:
        try:
            pooch.HTTPDownloader(progressbar=True, chunk_size=CHUNK)(url, temporary, None)
        except requests.HTTPError as error:
            if error.response.status_code < 500:  # Trying again is of no use.
                raise OSError(str(error)) from error
            raise
        check_archive(Path(temporary))

    pooch.get_logger().setLevel("WARNING")
    try:
        store = pooch.create(folder, f"{TU_URL}/", registry={file: None}, retry_if_failed=RETRIES)
        path = Path(store.fetch(file, downloader=fetch))
        # pooch makes files that only their owner may read; who may read the folder may read these.
        path.chmod(folder.stat().st_mode & 0o666)
    except (OSError, DatasetError) as error:
        raise DatasetError(
            f"{name}: cannot be downloaded to {folder}: {error} Check the name and the connection, "
            f"name another folder by LCPOOL_DATA or root, {by_hand}"
        ) from error
    return path
