/**
 * Sounds of alerts, made of tones: no file to load.
 *
 * Invariant
 * 1. Nothing sounds before the person has done something on the page: browsers refuse it, and so does good manners.
 */

export const sounds = ["chime", "bell", "alarm"] as const
export type Sound = (typeof sounds)[number]

interface Tone {
  /** Hertz. */
  readonly pitch: number
  /** Seconds from the beginning of the sound. */
  readonly at: number
  readonly length: number
}

const tones: Readonly<Record<Sound, ReadonlyArray<Tone>>> = {
  chime: [{ pitch: 660, at: 0, length: 0.35 }, { pitch: 880, at: 0.16, length: 0.6 }],
  bell: [{ pitch: 988, at: 0, length: 0.9 }, { pitch: 1976, at: 0, length: 0.4 }],
  alarm: [0, 0.36, 0.72].flatMap((at) => [
    { pitch: 880, at, length: 0.16 },
    { pitch: 660, at: at + 0.18, length: 0.16 },
  ]),
}

const loudness = 0.18

let output: AudioContext | null = null

const sound = (context: AudioContext, { at, length, pitch }: Tone): void => {
  const begin = context.currentTime + at
  const oscillator = context.createOscillator()
  const gain = context.createGain()
  oscillator.frequency.value = pitch
  gain.gain.setValueAtTime(0, begin)
  gain.gain.linearRampToValueAtTime(loudness, begin + 0.01)
  gain.gain.exponentialRampToValueAtTime(0.001, begin + length)
  oscillator.connect(gain).connect(context.destination)
  oscillator.start(begin)
  oscillator.stop(begin + length)
}

/** Plays it, unless nobody has touched the page yet. */
export const play = (name: Sound): void => {
  if (!navigator.userActivation.hasBeenActive) return
  output ??= new AudioContext()
  const context = output
  void context.resume().then(() => {
    for (const tone of tones[name]) sound(context, tone)
  })
}
