/**
 * What cameras notice by themselves.
 *
 * Invariants
 * 1. What a device tells is kept within {@link notificationLimits}, whatever it sends.
 */

/** What a camera can notice. A line is crossed in a moment; the others begin and end. */
export type NoticeKind = "motion" | "tamper" | "input" | "line"

/** Characters of a topic or a source, and notices of one answer. */
export const notificationLimits = { text: 256, notices: 64 } as const

/** One thing that a device told. */
export interface DeviceNotice {
  readonly kind: NoticeKind
  /** As the device calls it, without prefixes of namespaces (`RuleEngine/CellMotionDetector/Motion`). */
  readonly topic: string
  /** Tells apart what notices: topic, source, rule. */
  readonly detector: string
  /** Token of the video source, or of the input; null: the device does not tell. */
  readonly source: string | null
  /** Whether it is so now; null: it happened in a moment. */
  readonly active: boolean | null
  /** It was so before, and is told because somebody began to listen. */
  readonly initial: boolean
  /** Of the device's own clock, epoch milliseconds; null: it does not tell. */
  readonly deviceTimeMs: number | null
}

export interface Noticed {
  readonly notices: ReadonlyArray<DeviceNotice>
  /** Notices that could not be read or were too many. */
  readonly leftOut: number
}
