#!/usr/bin/python3
"""Independent cameras: RTSP mounts on gst-rtsp-server that loop footage encoded once.

usage: gst-cameras.py [--port P] [--cameras N] --stream NAME=VIDEO[,AUDIO] ... [--digest USER:PASSWORD | --basic USER:PASSWORD]
       [--fed-by appsrc|ffmpeg] [--onvif]

Each --stream makes the mounts /NAME/0 to /NAME/N-1. A video's name tells its size, rate and codec
(`main-640x360-25.h264`), an audio's its sampling rate and codec (`tone-16000.aac`).

--onvif: the server is GStreamer's RTSPOnvifServer, and every mount has a backchannel for PCMU; `report` then tells `heard`, the packets
that came in there, of each mount.

--fed-by appsrc (default): this program gives GStreamer each access unit with its exact time, and puts the frame mark (an SEI
message with the mount, an absolute frame number and the time; see test/camera-simulator/sei.ts) into it.
--fed-by ffmpeg: ffmpeg reads, loops and times the footage and feeds the server an MPEG transport stream through a pipe, one
ffmpeg a mount, from the first viewer to the last. Frames carry no marks then; video alone.

Invariants
1. One line of JSON is printed when the mounts can be reached: { ready, port, mounts }.
2. A line `report` on standard input is answered by one line of JSON: { mounts: { path: { frames, first, last } } }; the same line
   is printed at the end. Frames are those given to GStreamer; a number is never used twice for a mount.
3. The end of standard input, SIGTERM and SIGINT end the program and what it started.
"""
import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtsp", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtsp, GstRtspServer  # noqa: E402

UUID = b"nightjar-frame-1"


def nal_units(stream):
    """NAL units of an Annex-B stream without start codes and trailing zeros."""
    starts = [match.end() for match in re.finditer(b"\x00\x00\x01", stream)]
    ends = [start - 3 for start in starts[1:]] + [len(stream)]
    return [stream[start:end].rstrip(b"\x00") for start, end in zip(starts, ends)]


def access_units(codec, stream):
    """Per picture: bytes before the mark (parameter sets) and bytes after it (slices), with start codes."""
    found, before, open_picture = [], [], None
    for unit in nal_units(stream):
        if codec == "h264":
            kind = unit[0] & 31
            is_slice, first, is_set = 1 <= kind <= 5, bool(unit[1] & 0x80), kind in (7, 8)
        else:
            kind = (unit[0] >> 1) & 63
            is_slice, first, is_set = kind < 32, bool(unit[2] & 0x80), 32 <= kind <= 34
        if is_set:
            before.append(unit)
        elif is_slice and first:
            open_picture = (before, [unit])
            found.append(open_picture)
            before = []
        elif is_slice:
            open_picture[1].append(unit)
    join = lambda units: b"".join(b"\x00\x00\x00\x01" + unit for unit in units)
    return [(join(sets), join(slices)) for sets, slices in found]


def mark(codec, path, frame):
    """The SEI message with the frame's number, as Annex B."""
    text = UUID + b"sim1 " + path.encode("ascii")[:32].ljust(32) + b" %012d %013d" % (frame, int(time.time() * 1000))
    header = b"\x06" if codec == "h264" else b"\x4e\x01"
    return b"\x00\x00\x00\x01" + header + bytes([5, len(text)]) + text + b"\x80"


def adts_frames(stream):
    frames, at = [], 0
    while at + 7 <= len(stream):
        size = ((stream[at + 3] & 3) << 11) | (stream[at + 4] << 3) | (stream[at + 5] >> 5)
        frames.append(stream[at:at + size])
        at += size
    return frames


class Footage:
    """One file: its units and how long each lasts."""

    def __init__(self, file):
        name = os.path.basename(file)
        self.file = file
        with open(file, "rb") as source:
            stream = source.read()
        video = re.search(r"-\d+x\d+-(\d+)\.(h264|h265)$", name)
        audio = re.search(r"-(\d+)\.(aac|pcmu|pcma)$", name)
        if video:
            self.codec, self.rate = video[2], int(video[1])
            self.units, self.duration = access_units(self.codec, stream), Gst.SECOND // self.rate
        elif audio:
            self.codec, self.rate = audio[2], int(audio[1])
            aac = self.codec == "aac"
            size = self.rate // 50
            self.units = adts_frames(stream) if aac else [stream[i:i + size] for i in range(0, len(stream) - size + 1, size)]
            self.duration = 1024 * Gst.SECOND // self.rate if aac else Gst.SECOND // 50
        else:
            sys.exit(f"{name}: the name does not tell rate and codec")

    @property
    def video(self):
        return self.codec in ("h264", "h265")

    def launch(self, index):
        """Part of a gst-rtsp-server launch line."""
        source = f"appsrc name=src{index} is-live=true format=time block=false max-bytes=0 caps="
        rate = f"rate=(int){self.rate},channels=(int)1"
        caps, pay = {
            "h264": (f"video/x-h264,stream-format=byte-stream,alignment=au,framerate={self.rate}/1", "rtph264pay config-interval=-1 pt=96"),
            "h265": (f"video/x-h265,stream-format=byte-stream,alignment=au,framerate={self.rate}/1", "rtph265pay config-interval=-1 pt=96"),
            "aac": (f"audio/mpeg,mpegversion=(int)4,stream-format=adts,framed=true,{rate}", "rtpmp4gpay pt=97"),
            "pcmu": (f"audio/x-mulaw,{rate}", "rtppcmupay pt=0"),
            "pcma": (f"audio/x-alaw,{rate}", "rtppcmapay pt=8"),
        }[self.codec]
        parse = " ! aacparse" if self.codec == "aac" else ""
        return f'{source}"{caps}"{parse} ! {pay} name=pay{index}'


class Mount:
    """What was given to GStreamer under one path."""

    def __init__(self, path, footage):
        self.path, self.footage = path, footage
        self.frames, self.first, self.next, self.heard = 0, None, 0, 0

    def take(self):
        frame = self.next
        self.next += 1
        self.frames += 1
        if self.first is None:
            self.first = frame
        return frame

    def report(self):
        return {"frames": self.frames, "first": self.first, "last": None if self.first is None else self.next - 1,
                "heard": self.heard}


class Feed:
    """Gives one appsrc its units as they fall due, from the moment its pipeline runs."""

    def __init__(self, source, footage, mount):
        self.source, self.footage, self.mount = source, footage, mount
        self.given, self.base, self.begun, self.ended = 0, None, 0, False

    def tick(self, now):
        if self.ended or not self.ready(now):
            return
        while not self.ended and now - self.begun >= self.given * self.footage.duration:
            self.give()

    def ready(self, now):
        if self.base is None:
            clock = self.source.get_clock()
            if clock is None or self.source.get_state(0)[1] not in (Gst.State.PLAYING, Gst.State.PAUSED):
                return False
            started = self.source.get_base_time()
            self.base = 0 if started == 0 else max(0, clock.get_time() - started)
            self.begun = now
        return True

    def give(self):
        unit = self.footage.units[self.given % len(self.footage.units)]
        if self.footage.video:
            unit = unit[0] + mark(self.footage.codec, self.mount.path, self.mount.take()) + unit[1]
        buffer = Gst.Buffer.new_wrapped(unit)
        buffer.pts = buffer.dts = self.base + self.given * self.footage.duration
        buffer.duration = self.footage.duration
        self.given += 1
        self.ended = self.source.emit("push-buffer", buffer) != Gst.FlowReturn.OK


class Cameras:
    def __init__(self, options):
        self.options, self.feeds, self.mounts, self.children = options, [], [], set()
        self.server = GstRtspServer.RTSPOnvifServer() if options.onvif else GstRtspServer.RTSPServer()
        self.server.set_address("127.0.0.1")
        self.server.set_service(str(options.port))
        self.role = self.require_login()
        for stream in options.stream:
            name, files = stream.split("=", 1)
            footage = [Footage(file) for file in files.split(",")]
            for camera in range(options.cameras):
                self.add(f"/{name}/{camera}", footage)

    def require_login(self):
        login = self.options.digest or self.options.basic
        if not login:
            return None
        username, password = login.split(":", 1)
        auth, token = GstRtspServer.RTSPAuth(), GstRtspServer.RTSPToken()
        token.set_string("media.factory.role", "viewer")
        if self.options.digest:
            auth.set_supported_methods(GstRtsp.RTSPAuthMethod.DIGEST)
            auth.add_digest(username, password, token)
        else:
            auth.add_basic(GstRtspServer.RTSPAuth.make_basic(username, password), token)
        self.server.set_auth(auth)
        return "viewer"

    def add(self, path, footage):
        mount = Mount(path, footage)
        self.mounts.append(mount)
        factory = GstRtspServer.RTSPOnvifMediaFactory() if self.options.onvif else GstRtspServer.RTSPMediaFactory()
        if self.options.onvif:
            caps = "application/x-rtp,media=audio,payload=0,clock-rate=8000,encoding-name=PCMU"
            factory.set_media_gtype(GstRtspServer.RTSPOnvifMedia.__gtype__)
            factory.set_backchannel_launch(f'( capsfilter caps="{caps}" name=depay_backchannel ! fakesink name=ear sync=false async=false )')
            factory.connect("media-configure", self.listen, mount)
        if self.options.fed_by == "ffmpeg":
            codec = footage[0].codec
            source = 'appsrc name=feed is-live=true format=time do-timestamp=true caps="video/mpegts,systemstream=true,packetsize=188"'
            factory.set_launch(f"( {source} ! tsdemux ! {codec}parse ! rtp{codec}pay name=pay0 pt=96 config-interval=-1 )")
            factory.connect("media-configure", self.feed_by_ffmpeg, mount)
        else:
            factory.set_launch("( " + " ".join(part.launch(i) for i, part in enumerate(footage)) + " )")
            factory.connect("media-configure", self.feed_by_appsrc, mount)
        factory.set_shared(True)
        if self.role:
            access = "viewer, media.factory.access=(boolean)true, media.factory.construct=(boolean)true"
            factory.add_role_from_structure(Gst.Structure.new_from_string(access))
        self.server.get_mount_points().add_factory(path, factory)

    def listen(self, _factory, media, mount):
        def heard(_pad, _info):
            mount.heard += 1
            return Gst.PadProbeReturn.OK

        ear = media.get_element().get_by_name("ear")
        if ear:
            ear.get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, heard)

    def feed_by_appsrc(self, _factory, media, mount):
        element = media.get_element()
        feeds = [Feed(element.get_by_name(f"src{i}"), part, mount) for i, part in enumerate(mount.footage)]
        self.feeds.extend(feeds)

        def gone(_media):
            self.feeds = [feed for feed in self.feeds if feed not in feeds]

        media.connect("unprepared", gone)

    def feed_by_ffmpeg(self, _factory, media, mount):
        video = mount.footage[0]
        child = subprocess.Popen(
            ["ffmpeg", "-hide_banner", "-loglevel", "error", "-nostdin", "-re", "-stream_loop", "-1", "-framerate", str(video.rate),
             "-f", {"h264": "h264", "h265": "hevc"}[video.codec], "-i", video.file, "-c", "copy", "-f", "mpegts", "pipe:1"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.children.add(child)
        feed = media.get_element().get_by_name("feed")

        def pump(pipe, condition):
            if child in self.children:
                piece = os.read(pipe, 188 * 300)
                if piece != b"" and feed.emit("push-buffer", Gst.Buffer.new_wrapped(piece)) == Gst.FlowReturn.OK:
                    return True
            return False

        GLib.io_add_watch(child.stdout.fileno(), GLib.PRIORITY_DEFAULT, GLib.IO_IN | GLib.IO_HUP, pump)

        def gone(_media):
            self.children.discard(child)
            child.kill()
            child.wait()

        media.connect("unprepared", gone)

    def tick(self):
        now = time.monotonic_ns()
        for feed in list(self.feeds):
            feed.tick(now)
        return True

    def report(self):
        print(json.dumps({"mounts": {mount.path: mount.report() for mount in self.mounts}}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--cameras", type=int, default=1)
    parser.add_argument("--stream", action="append", required=True)
    parser.add_argument("--digest")
    parser.add_argument("--onvif", action="store_true")
    parser.add_argument("--basic")
    parser.add_argument("--fed-by", choices=["appsrc", "ffmpeg"], default="appsrc")
    options = parser.parse_args()
    Gst.init(None)
    cameras = Cameras(options)
    loop = GLib.MainLoop()

    def read_command(_source, _condition):
        line = sys.stdin.readline()
        if line.strip() == "report":
            cameras.report()
        if line == "":
            loop.quit()
        return line != ""

    if cameras.server.attach(None) == 0:
        sys.exit(f"port {options.port} cannot be used")
    GLib.timeout_add(5, cameras.tick)
    GLib.io_add_watch(sys.stdin, GLib.PRIORITY_DEFAULT, GLib.IO_IN | GLib.IO_HUP, read_command)
    for number in (signal.SIGTERM, signal.SIGINT):
        GLib.unix_signal_add(GLib.PRIORITY_HIGH, number, loop.quit)
    print(json.dumps({"ready": True, "port": cameras.server.get_bound_port(), "mounts": [mount.path for mount in cameras.mounts]}), flush=True)
    loop.run()
    for child in list(cameras.children):
        child.kill()
        child.wait()
    cameras.report()


main()
