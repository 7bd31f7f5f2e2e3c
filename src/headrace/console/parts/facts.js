// Names and their values. One element however many there are: making four for each, every time that one value changes, took more
// of the console's time than anything else. All of it is put in as text.
export default {
  template: `
    <dl class="grid gap-x-6 gap-y-1 w-full">
      <div v-for="[name, value] in pairs" :key="name" class="flex flex-nowrap gap-2 min-w-0">
        <dt class="headrace-soft shrink-0"><div>{{ name }}</div></dt>
        <dd class="min-w-0"><div class="break-words">{{ value }}</div></dd>
      </div>
    </dl>
  `,
  props: { pairs: Array },
};
