/** How codecs and capabilities are called for a person. */

export const codecNames: Readonly<Record<string, string>> = {
  h264: "H.264",
  h265: "H.265",
  jpeg: "Motion JPEG",
  mpeg4: "MPEG-4",
  aac: "AAC",
  opus: "Opus",
  pcmu: "G.711",
  pcma: "G.711",
}

export const capabilityNames: Readonly<Record<string, string>> = {
  media: "Streams (Media)",
  media2: "Streams (Media 2)",
  ptz: "Can be moved",
  imaging: "Image settings",
  events: "Events",
  analytics: "Analytics",
  audio: "Sound",
  snapshot: "Still pictures",
}

export const supportedWords = { yes: "yes", no: "no", unverified: "not verified" } as const
export const supportedStates = { yes: "ok", no: "idle", unverified: "warn" } as const

export const roleNames = { main: "Main stream", sub: "Sub-stream" } as const
