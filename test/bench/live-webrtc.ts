/**
 * The part of `live.ts` that watches by WebRTC: libdatachannel receives and decrypts in this process, so that the other one's CPU is that
 * of a server alone.
 */
import { receiverReportPacket } from "#media/rtp/rtcp.ts"
import { PeerConnection, Video } from "node-datachannel"

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

export interface WebRtcViewer {
  bytes: number
  readonly close: () => void
}

/** Watches what the server at that port answers. */
export const openViewer = async (port: number): Promise<WebRtcViewer> => {
  const connection = new PeerConnection("bench", {
    iceServers: [],
    bindAddress: "127.0.0.1",
    disableAutoNegotiation: true,
  })
  const video = new Video("0", "RecvOnly")
  video.addH264Codec(102)
  const track = connection.addTrack(video)
  let [senderSsrc, highestSequence] = [0, 0]
  const viewer: WebRtcViewer = {
    bytes: 0,
    close: () => {
      clearInterval(reports)
      connection.close()
    },
  }
  track.onMessage((packet) => {
    if (packet[1]! >= 192 && packet[1]! <= 223) return
    viewer.bytes += packet.length - 12
    senderSsrc = packet.readUInt32BE(8)
    highestSequence = packet.readUInt16BE(2)
  })
  // As browsers do, once a second; of itself libdatachannel reports nothing.
  const reports = setInterval(() => {
    if (senderSsrc === 0 || !track.isOpen()) return
    const report = { fractionLost: 0, totalLost: 0, jitter: 0, lastReport: 0, delay: 0 }
    track.sendMessageBinary(receiverReportPacket({ receiverSsrc: 99, senderSsrc, highestSequence, ...report }))
  }, 1_000)
  connection.setLocalDescription("offer")
  while (connection.gatheringState() !== "complete") await sleep(10)
  const response = await fetch(`http://127.0.0.1:${port}/`, {
    method: "POST",
    body: connection.localDescription()!.sdp,
  })
  const answer = await response.text()
  if (!response.ok) throw new Error(answer)
  connection.setRemoteDescription(answer, "answer")
  for (let i = 0; i < 2_000 && connection.state() !== "connected"; i++) await sleep(10)
  if (connection.state() !== "connected") throw new Error(`not connected: ${connection.state()}`)
  return viewer
}
