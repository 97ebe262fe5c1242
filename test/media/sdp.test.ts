/** Session descriptions of cameras, and what is chosen of them. */
import { parseSdp } from "#media/rtsp/sdp.ts"
import { chooseTracks } from "#media/rtsp/tracks.ts"
import { assert, describe, it } from "@effect/vitest"

const lines = (...text: ReadonlyArray<string>) => text.join("\r\n")

describe("parseSdp", () => {
  it("reads an ordinary one", () => {
    const sdp = parseSdp(
      lines(
        "v=0",
        "o=- 1 1 IN IP4 10.0.0.9",
        "s=Media Presentation",
        "a=control:*",
        "m=video 0 RTP/AVP 96",
        "a=rtpmap:96 H264/90000",
        "a=fmtp:96 packetization-mode=1; profile-level-id=640028;sprop-parameter-sets=Z2QAKKzZ,aOvjyyLA ;",
        "a=control:trackID=1",
        "a=recvonly",
        "m=audio 0 RTP/AVP 97",
        "a=rtpmap:97 mpeg4-generic/16000/2",
        "a=fmtp:97 streamtype=5;Mode=AAC-hbr;config=1410;SizeLength=13;IndexLength=3;IndexDeltaLength=3",
        "a=control:trackID=2",
      ),
    )
    assert.strictEqual(sdp.control, "*")
    assert.deepStrictEqual(sdp.media.map(({ control, direction, kind }) => [kind, control, direction]), [
      ["video", "trackID=1", "recvonly"],
      ["audio", "trackID=2", "sendrecv"],
    ])
    const [video, audio] = sdp.media.map(({ formats }) => formats[0]!)
    assert.strictEqual(video?.parameters.get("sprop-parameter-sets"), "Z2QAKKzZ,aOvjyyLA")
    assert.deepStrictEqual([audio?.encoding, audio?.clockRate, audio?.channels], ["MPEG4-GENERIC", 16_000, 2])
    assert.strictEqual(audio?.parameters.get("sizelength"), "13")
  })

  it("forgives line ends, blanks, case, unknown lines and missing maps", () => {
    const sdp = parseSdp(
      " v=0\n\n\0nonsense\nM=video\nm=Audio 0 RTP/AVP 0\rm=video 0 RTP/AVP  104 xyz 26\na=RTPMAP: 104  h265 / 90000\na=control: track1 \na=rtpmap:26 broken\na=fmtp:104",
    )
    assert.deepStrictEqual(sdp.media.map(({ formats, kind }) => [kind, formats.map(({ encoding }) => encoding)]), [
      ["audio", ["PCMU"]],
      ["video", ["H265", "JPEG"]],
    ])
    assert.strictEqual(sdp.media[1]?.control, "track1")
  })

  it("bounds what it keeps", () => {
    const sdp = parseSdp("m=video 0 RTP/AVP 96 97 98\n".repeat(1000) + `a=fmtp:96 ${"x=y;".repeat(10_000)}`)
    assert.strictEqual(sdp.media.length, 32)
    assert.deepStrictEqual(parseSdp("").media, [])
  })
})

describe("chooseTracks", () => {
  const choose = (...text: ReadonlyArray<string>) => {
    const choice = chooseTracks(parseSdp(lines(...text)))
    return typeof choice === "string" ? choice : {
      video: choice.video.codec,
      audio: choice.audio === null ? null : choice.audio.parameters,
      order: choice.order.map(({ kind }) => kind),
    }
  }
  const video = ["m=video 0 RTP/AVP 96", "a=rtpmap:96 H264/90000"]

  it("takes audio first where the camera says so, and leaves the loudspeaker and metadata out", () => {
    const choice = choose(
      "m=application 0 RTP/AVP 107",
      "a=rtpmap:107 vnd.onvif.metadata/90000",
      "m=audio 0 RTP/AVP 0",
      "a=sendonly",
      "m=audio 0 RTP/AVP 8",
      "a=recvonly",
      ...video,
    )
    assert.deepStrictEqual(choice, {
      video: "h264",
      audio: { codec: "pcma", codecs: "alaw", sampleRate: 8000, channels: 1, config: new Uint8Array(0) },
      order: ["audio", "video"],
    })
  })

  it("goes on without audio that cannot be used", () => {
    for (const audio of ["MPEG4-GENERIC/16000", "G726-32/8000", "MP4A-LATM/90000"]) {
      assert.deepStrictEqual(choose(...video, "m=audio 0 RTP/AVP 97", `a=rtpmap:97 ${audio}`), {
        video: "h264",
        audio: null,
        order: ["video"],
      })
    }
  })

  it("tells the sample rate where the camera's clock is wrong", () => {
    const choice = choose(...video, "m=audio 0 RTP/AVP 97", "a=rtpmap:97 mpeg4-generic/90000", "a=fmtp:97 config=1408")
    assert.isObject(choice)
    if (typeof choice !== "string") {
      assert.deepStrictEqual([choice.audio?.sampleRate, choice.audio?.channels], [16_000, 1])
    }
  })

  it("says what there was where nothing fits", () => {
    assert.strictEqual(
      choose("m=video 0 RTP/AVP 26", "m=audio 0 RTP/AVP 0"),
      "no H.264 or H.265 video among: video JPEG, audio PCMU",
    )
    assert.strictEqual(choose(...video, "a=inactive"), "no H.264 or H.265 video among: video H264")
  })
})
