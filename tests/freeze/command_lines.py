"""The command lines of README.md, docs/attention.md and results/README.md, as they were frozen.

Left out is what is no command line: those that stand for any (`train.py [CONFIG] ...`), and --help.
"""

TRAIN = r"""
python train.py
python train.py --resume RUN
python train.py configs/cluttered60_soft.yaml
python train.py --network.core lstm --network.what fc --attention.first random
python train.py --loss.baseline leave_one_out --loss.rollouts 4
python train.py --init_from runs/cluttered60_soft/seed0-...
python train.py configs/cluttered60_grid_soft.yaml --attention.scorer scaled_dot --attention.window 1
python train.py configs/digit_captions_soft.yaml --encoder.self_attention 2 --encoder.heads 4 --attention.window 2
python train.py --data.num_digits 2 --data.target sum
python train.py --data.kind folder --data.root my_images --data.size "[64, 96]"
python train.py --data.kind torchvision --data.name CIFAR10 --data.root data --data.download true
python train.py configs/digit_captions_soft.yaml
python train.py configs/digit_captions_hard.yaml
python train.py configs/flickr8k_cpu_soft.yaml --data.root flickr8k/images --encoder.cache flickr8k/lite2
python train.py configs/dates_soft.yaml
python train.py configs/dates_hard.yaml
python train.py configs/dates_self.yaml
python train.py configs/dates_none.yaml
python train.py configs/multi30k_soft.yaml --data.root multi30k/tok
python train.py configs/multi30k_soft.yaml --data.root anki --data.tsv deu.txt
python train.py configs/dates_soft.yaml --read hard --attention.scorer scaled_dot --attention.window 2
python train.py configs/cluttered60_hard.yaml --seed 0
python train.py configs/cluttered60_hard_leave_one_out.yaml --seed 0
python train.py configs/cluttered60_soft.yaml --seed 0
python train.py configs/cluttered60_soft_to_hard.yaml --seed 0
python train.py configs/cluttered100_hard.yaml --seed 0
python train.py configs/cluttered100_soft.yaml --seed 0
python train.py configs/translated60_hard.yaml --seed 0
python train.py configs/translated60_soft_to_hard.yaml --seed 0
python train.py configs/mnist_hard.yaml --seed 0
python train.py configs/cluttered60_hard.yaml --seed 2
python train.py configs/cluttered60_halt.yaml --seed 0
python train.py configs/cluttered60_attend.yaml --seed 0
python train.py configs/dates_soft.yaml --seed 0
python train.py configs/dates_hard.yaml --seed 0
python train.py configs/dates_none.yaml --seed 0
python train.py configs/dates_self.yaml --seed 0
python train.py configs/multi30k_soft.yaml --seed 0
python train.py configs/multi30k_none.yaml --seed 0
python train.py configs/digit_captions_soft.yaml --seed 0
python train.py configs/digit_captions_hard.yaml --seed 0
python train.py configs/flickr8k_cpu_soft.yaml --seed 0
python train.py configs/flickr8k_cpu_hard.yaml --seed 0
python train.py configs/cluttered60_oracle.yaml --seed 0
python train.py configs/cluttered60_raster.yaml --seed 0
python train.py configs/cluttered60_random.yaml --seed 0
python train.py configs/cluttered60_centre.yaml --seed 0
python train.py configs/cluttered60_cnn.yaml --seed 0
python train.py configs/cluttered60_fc.yaml --seed 0
python train.py configs/cluttered60_hard.yaml --seed 0 --train.epochs 4
python train.py configs/cluttered60_hard.yaml --seed 0 --network.what fc --train.epochs 4
python train.py configs/cluttered60_hard.yaml --seed 0 --network.core rnn --train.epochs 4
python train.py configs/cluttered60_hard.yaml --seed 0 --loss.reward accuracy --loss.reward_when last --train.epochs 4
python train.py configs/cluttered60_hard.yaml --seed 0 --loss.baseline none --train.epochs 4
python train.py configs/cluttered60_hard.yaml --seed 0 --attention.std_end null --train.epochs 4
python train.py configs/cluttered60_hard.yaml --seed 0 --attention.std 0.05 --attention.std_end null --train.epochs 4
python train.py configs/cluttered60_hard.yaml --seed 0 --loss.mix 1.0 --loss.mix_end 0.0 --loss.mix_until 0.3 \
    --train.epochs 4
python train.py configs/cluttered60_hard.yaml --seed 0 --loss.baseline leave_one_out --loss.rollouts 2 --train.epochs 4
python train.py configs/cluttered60_hard.yaml --seed 0 --loss.rollouts 2 --train.epochs 4
python train.py configs/cluttered60_paper.yaml --seed 0
python train.py configs/translated60_hard.yaml --seed 0 --loss.baseline learned --loss.rollouts 1
python train.py configs/mnist_hard.yaml --seed 0 --loss.baseline learned --loss.rollouts 1 --train.epochs 30
python train.py configs/mnist_hard.yaml --seed 0 --read soft --attention.std 0.1 --attention.std_end 0.01 \
    --attention.std_until 0.4 --loss.baseline learned --loss.rollouts 1 --train.epochs 30 --score.read hard
python train.py configs/mnist_hard.yaml --seed 0 --train.epochs 30
python train.py configs/cluttered60_paper.yaml --seed 0 --train.epochs 30
python train.py configs/cluttered60_paper.yaml --seed 0 --train.epochs 90
python train.py configs/cluttered60_hard_leave_one_out.yaml --seed 0 --train.epochs 10
python train.py configs/cluttered100_soft.yaml --seed 0 --train.epochs 6
"""

EVALUATE = r"""
python evaluate.py score runs/default/seed0-...
python evaluate.py animate runs/default/seed0-... --gallery --out glimpses.gif
python evaluate.py report runs/default/seed0-... runs/cluttered60_soft/seed0-...
python evaluate.py score cluttered60-hard
python evaluate.py animate cluttered60-hard --gallery --out glimpses.gif
python evaluate.py report digit-captions-soft digit-captions-hard --out captions.html
python evaluate.py translate dates-soft "the 3rd of May, 1998"
python evaluate.py compare cluttered60-hard cluttered60-soft cluttered60-soft-to-hard \
    --configs configs/cluttered60_{oracle,cnn,raster,random,centre,fc}.yaml --train.threads 1
python evaluate.py report cluttered60-hard cluttered60-soft runs/cluttered60_cnn/seed0-* --gallery
python evaluate.py compare RUN RUN ...
python evaluate.py compare --configs configs/cluttered60_hard.yaml configs/cluttered60_soft.yaml --seeds 3
python evaluate.py score runs/digit_captions_soft/seed0-...
python evaluate.py report runs/digit_captions_*/seed0-*
python evaluate.py glimpses runs/digit_captions_*/seed0-*
python evaluate.py caption runs/flickr8k_cpu_soft/seed0-... holiday.jpg --out holiday.png
python evaluate.py score runs/dates_soft/seed0-...
python evaluate.py translate runs/dates_soft/seed0-... "Sunday 3 May 1998" "the third of may nineteen ninety-eight"
python evaluate.py translate RUN "the 3rd of May, 1998" --out alignment.png
python evaluate.py glimpses runs/dates_soft/seed0-... runs/dates_hard/seed0-... --images 7 21 --out alignment.png
python evaluate.py report runs/dates_*/seed0-* --out report.html
python evaluate.py compare runs/dates_soft/* runs/dates_none/*
python evaluate.py glimpses RUN --self --out maps.png
python evaluate.py translate runs/multi30k_soft/seed0-... --file sentences.txt --json
python evaluate.py animate cluttered60-hard cluttered60-soft --gallery --count 5 --out glimpses.gif
python evaluate.py results RUN --section main
python evaluate.py compare cluttered60-hard-leave-one-out cluttered60-hard cluttered60-soft cluttered60-soft-to-hard
python evaluate.py compare cluttered60-hard
python evaluate.py variance RUN
python evaluate.py variance cluttered60-hard
python evaluate.py animate RUN --out glimpses.gif
python evaluate.py animate RUN RUN --out glimpses.gif
python evaluate.py glimpses RUN --out glimpses.png
python evaluate.py coverage RUN ... --out coverage.png
python evaluate.py report RUN ... --out report.html
python evaluate.py report RUN --class 3 --mistakes
python evaluate.py glimpses RUN RUN --out alignment.png
python evaluate.py glimpses digit-captions-soft digit-captions-hard --images 0 1 --out captions.png
python evaluate.py score digit-captions-soft
python evaluate.py score digit-captions-hard
python evaluate.py score RUN
python evaluate.py translate dates-soft "3/5/98 (day first)"
python evaluate.py glimpses runs/dates_self/seed0-... --self --images 1702 --out self_attention.png
python evaluate.py compare runs/multi30k_soft/* runs/multi30k_none/*
python evaluate.py translate runs/multi30k_soft/seed0-... "a dog tries to catch a frisbee in the park ." \
    --out word_order.png
"""
